# The verbs of this project. Each is a line or two; what takes more is in scripts/.
# They work on a machine that has Python 3.11 or newer, git and make: everything else goes into .venv. Where there is no
# Node 20, the VS Code extension is left out, and that is said.

PYTHON_IN := .venv/bin/python
READY := .venv/.setup-complete
SOURCES := sidecar scripts tests
.DEFAULT_GOAL := help
.PHONY: help setup demo test e2e bench lint fix generate lock package clean
.PHONY: style types generated extension

help: ## say what the verbs are
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(READY) ## install everything into .venv (quick when nothing has changed)
	@test -x .venv/bin/understudy || { rm -f $(READY) && $(MAKE) --no-print-directory $(READY); }

$(READY): requirements/build.txt requirements/dev.txt pyproject.toml scripts/setup
	@scripts/setup

demo: setup ## delegate the tests of a module and watch (FILE=yours.py, DELEGATOR=liar)
	@$(PYTHON_IN) scripts/demo.py $(if $(FILE),--file '$(FILE)') $(if $(DELEGATOR),--delegator '$(DELEGATOR)')

test: setup ## run every test but the heavy ones
	$(PYTHON_IN) -m pytest -q -n 2 -m "not heavy"
	@scripts/extension test

e2e: setup ## run the heavy tests; what fails is run once more
	$(PYTHON_IN) scripts/e2e.py

bench: setup ## measure, as ratios within one run
	$(PYTHON_IN) tests/benchmarks/bench.py
	@scripts/extension bench
	@$(PYTHON_IN) scripts/vscode.py --bench || test $$? -eq 3

lint: setup ## look without changing: style, types, generated files, tracked files
	@$(MAKE) --no-print-directory --keep-going style types generated extension

style: # the parts of lint, so that one look shows everything that is wrong
	.venv/bin/ruff check $(SOURCES)
	.venv/bin/ruff format --check $(SOURCES)

types:
	.venv/bin/mypy
	.venv/bin/mypy scripts/*.py

generated:
	$(PYTHON_IN) -m understudy.api.contract --check
	$(PYTHON_IN) -m pytest -q tests/test_floors.py tests/test_tracked.py

extension:
	scripts/extension lint

fix: setup ## repair what can be repaired without thinking
	.venv/bin/ruff check --fix $(SOURCES)
	.venv/bin/ruff format $(SOURCES)
	@scripts/extension fix

generate: setup ## write protocol/ anew from the method table
	$(PYTHON_IN) -m understudy.api.contract

lock: setup ## resolve the requirements anew (pass options to uv: ARGS=--upgrade)
	$(PYTHON_IN) -m pip --disable-pip-version-check install -q --no-deps --require-hashes -r requirements/lock.txt
	scripts/lock $(ARGS)

package: setup ## build dist/*.whl, dist/*.tar.gz and dist/*.vsix
	rm -rf dist
	$(PYTHON_IN) -m hatchling build -d dist -t sdist -t wheel
	@scripts/extension packages && $(PYTHON_IN) scripts/package_extension.py

clean: ## remove what was built; .venv stays
	rm -rf dist build vscode-extension/dist vscode-extension/wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find sidecar scripts tests -name __pycache__ -prune -exec rm -rf {} +
