"""The conformance scenarios CF-1 to CF-7 of hitl-prompt/v1, against any A2A agent that has the extension."""
