"""Worker processes of one machine, and process groups that train one model together."""
