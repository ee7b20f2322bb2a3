# Two commands are enough to begin with: `make run` and `make test`.
# Each makes the virtual environment and installs the locked packages by itself. PYTHON=python3.13 makes it anew with
# that one; else it stays, and python3 makes the first.
PYTHON ?=
ARGS ?=

.PHONY: run test bench lint clean

run:            ## start a broker on 127.0.0.1:9092, data in ./data; NODES=3: a cluster, data in ./data-of-3
	@PYTHON=$(PYTHON) .ci/setup run
	@.venv/bin/python -m broker start $(if $(NODES),--nodes $(NODES) --override log.dirs=./data-of-$(NODES),--override log.dirs=./data) $(ARGS)

test:           ## lint, types and all tests; parts: .ci/run unit, .ci/run lint ...
	@PYTHON=$(PYTHON) .ci/run

bench:          ## side by side with Apache Kafka: tests/performance/RESULTS.md
	@PYTHON=$(PYTHON) .ci/setup dev
	@.venv/bin/python -m tests.performance.side_by_side $(ARGS)

lint:           ## what CI says of style, types and layers, without the tests
	@PYTHON=$(PYTHON) .ci/run lint types

clean:          ## forget the virtual environment and all caches; ./data stays
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
