"""The scenarios call the Java tools in one JVM."""

from tests.support.tool_fixtures import tool

__all__ = ["tool"]
