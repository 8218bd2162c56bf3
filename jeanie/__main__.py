"""``python -m jeanie`` is the command ``jeanie``."""

from jeanie.cli.app import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
