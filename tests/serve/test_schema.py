"""The whole OpenAPI schema under generated requests: no server error, and every answer as the schema says."""

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient
from takes import make_take

from jeanie.errors import DataError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.app import make_app
from jeanie.serve.settings import ServeConfig, ServeLimits

pytestmark = [pytest.mark.plain, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def schema(shipped_model):
    """The schema of a service with one action."""
    limits = ServeLimits(requests_per_second=1e6, burst=10**6, json_bytes=2**26)
    with Recogniser.load(model=shipped_model) as recogniser:
        app = make_app(recogniser, ServeConfig(host="testserver", limits=limits))
        service = app.state.service
        service.uploads.read = refuse_upload
        client = TestClient(app)
        added = client.post("/api/v1/examples", json={"label": "wave", "frames": make_take()})
        assert added.status_code == 201
        yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


def refuse_upload(path, form, layout):
    """Stand for the worker process: other tests send it real files."""
    raise DataError(f"{path.name}: unknown format")


def test_every_operation_answers_as_its_schema_says(schema):
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        for mode in GenerationMode:

            @given(operation.as_strategy(generation_mode=mode))
            @settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
            def check(case):
                case.call_and_validate(
                    excluded_checks=[positive_data_acceptance]
                )  # frames may lack a movement

            with suppress(Unsatisfiable):  # a request without parameters cannot be wrong
                check()
