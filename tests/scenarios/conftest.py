"""The scenarios call the Java tools in one JVM."""

from tests.support.genuine.tool_fixtures import tool

__all__ = ["tool"]
