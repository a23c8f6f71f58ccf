# All targets need Python 3.11 or newer, git and make; everything else is installed into .venv. Without Node 20 they
# leave the VS Code extension out and print a message. Longer recipes are in scripts/.

PYTHON_IN := .venv/bin/python
READY := .venv/.setup-complete
SOURCES := sidecar scripts tests
.DEFAULT_GOAL := help
.PHONY: help setup demo test smoke e2e llama bench lint fix generate lock package clean
.PHONY: style types english generated extension

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(READY) ## install everything into .venv (fast when nothing changed)
	@test -x .venv/bin/understudy || { rm -f $(READY) && $(MAKE) --no-print-directory $(READY); }

$(READY): requirements/build.txt requirements/dev.txt pyproject.toml scripts/setup
	@scripts/setup

demo: setup ## delegate tests for a module and follow the work (FILE=yours.py, DELEGATOR=liar)
	@$(PYTHON_IN) scripts/demo.py $(if $(FILE),--file '$(FILE)') $(if $(DELEGATOR),--delegator '$(DELEGATOR)')

test: export PYTHONDONTWRITEBYTECODE =
test: setup ## run all tests except the heavy ones (options for pytest: ARGS=-x)
	$(PYTHON_IN) -m pytest -q -n 2 -m "not heavy" $(ARGS)
	@scripts/extension test

smoke: setup ## run a few heavy tests: each agent CLI, editor and caller once, VS Code, kills
	$(PYTHON_IN) scripts/e2e.py --smoke

e2e: setup ## run the heavy tests, and the extension in a real VS Code
	$(PYTHON_IN) scripts/e2e.py

llama: setup ## build a llama-server for the heavy tests, once (6 minutes on two idle cores)
	@$(PYTHON_IN) tests/support/llama_server.py

bench: setup ## measure performance, relative to baselines of the same run
	$(PYTHON_IN) tests/benchmarks/bench.py
	@scripts/extension bench
	@$(PYTHON_IN) scripts/vscode.py --bench || test $$? -eq 3

lint: setup ## check style, types, English, generated and tracked files; change nothing
	@$(MAKE) --no-print-directory --keep-going style types english generated extension

style: # the parts of lint: with --keep-going, one run reports every problem
	.venv/bin/ruff check $(SOURCES)
	.venv/bin/ruff format --check $(SOURCES)

types:
	.venv/bin/mypy
	.venv/bin/mypy scripts/*.py

english:
	$(PYTHON_IN) scripts/english.py

generated:
	$(PYTHON_IN) -m understudy.api.contract --check

extension:
	scripts/extension lint

fix: setup ## apply automatic fixes
	.venv/bin/ruff check --fix $(SOURCES)
	.venv/bin/ruff format $(SOURCES)
	@scripts/extension fix

generate: setup ## regenerate protocol/ from the method table and fold
	$(PYTHON_IN) -m understudy.api.contract
	$(PYTHON_IN) tests/journal/summaries/test_fold_examples.py

lock: setup ## update requirements/*.txt (options for uv: ARGS=--upgrade)
	$(PYTHON_IN) -m pip --disable-pip-version-check install -q --no-deps --require-hashes -r requirements/lock.txt
	scripts/lock $(ARGS)

package: setup ## build dist/*.whl, dist/*.tar.gz and dist/*.vsix
	rm -rf dist
	$(PYTHON_IN) -m hatchling build -d dist -t sdist -t wheel
	@scripts/extension packages && $(PYTHON_IN) scripts/package_extension.py

clean: ## remove build output and caches; keep .venv
	rm -rf dist build vscode-extension/dist vscode-extension/wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find sidecar scripts tests -name __pycache__ -prune -exec rm -rf {} +
