#!/bin/sh
# Starts the agents' door for the Lambda Web Adapter, which runs this as the function's handler.
set -eu
export PYTHONPATH="/opt/python${PYTHONPATH:+:$PYTHONPATH}"
exec python -m uvicorn --factory interlock.bootstrap:streaming_door \
  --host 127.0.0.1 --port "$AWS_LWA_PORT" --lifespan off --no-access-log --log-level warning \
  --timeout-keep-alive 75
