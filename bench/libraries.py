"""The named libraries alone: imports them, says so, and does nothing until stdin closes."""

import sys

import httpx
import prometheus_client
import psutil
import pydantic_settings
import rich
import starlette
import structlog
import tomli
import uvicorn

if __name__ == "__main__":
    names = (httpx, prometheus_client, psutil, pydantic_settings, rich, starlette, structlog, tomli, uvicorn)
    print(*(module.__name__ for module in names), flush=True)
    sys.stdin.read()
