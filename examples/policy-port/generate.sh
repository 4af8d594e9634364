#!/bin/sh
# Generates the package `assent` (messages, stubs and their types) from the contract, beside the programs.
set -eu
cd "$(dirname "$0")"
.venv/bin/python -m grpc_tools.protoc --proto_path=../../proto \
    --python_out=. --pyi_out=. --grpc_python_out=. ../../proto/assent/v1/*.proto
