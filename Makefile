# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Threads of FAISS that spin between calls slow everything else down on a small machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: help setup demo test test-extras check doctest spelling format bench profile bench-quality bench-baselines bench-search bench-scale bench-gpu clean

help: ## what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.venv/.made:
	@echo "== making the virtual environment .venv (once)"
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.test-ready: .venv/.made pyproject.toml
	@echo "== installing manihash with what the demo and the tests need"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

.venv/.check-ready: .venv/.test-ready pyproject.toml
	@echo "== installing the linters"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[check]'
	@touch $@

.venv/.extras-ready: .venv/.test-ready pyproject.toml
	@echo "== installing the databases that the tests of the optional parts run against (once)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test-extras]'
	@touch $@

setup: .venv/.test-ready ## make .venv with what demo and test need

demo: setup ## learn codes of handwritten digits, offline, and write demo/index.html
	$(BIN)/manihash demo --out demo

test: setup ## the tests that need no optional service
	$(BIN)/python -m pytest -q -m "not extra"

test-extras: .venv/.extras-ready ## the tests of the optional parts, against the real thing
	$(BIN)/python -m pytest -q -m extra

check: .venv/.check-ready ## format, lint, types, layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

doctest: .venv/.check-ready ## numpydoc's rules for all public names, and every example in a docstring
	$(BIN)/python -m pytest -q tests/test_docstrings.py
	$(BIN)/python -m pytest -q --doctest-modules --doctest-ignore-import-errors src/manihash

spelling: .venv/.check-ready ## American spelling and common typing errors
	$(BIN)/codespell src tests docs benchmarks README.md CONTRIBUTING.md CHANGELOG.md Makefile

format: .venv/.check-ready ## put the code into the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## fit and encode as multiples of the bare product, beside scikit-learn and FAISS (needs MNIST, photo-sift1m)
	$(BIN)/python benchmarks/fit.py

bench-quality: setup ## MAP and SVM of large base sets, three seeds (needs MNIST and cifar10-gist; half an hour)
	$(BIN)/python benchmarks/quality.py

profile: setup ## where the time of fit and encode goes (needs MNIST)
	$(BIN)/python benchmarks/profiling.py --recipe imh-tsne
	$(BIN)/python benchmarks/profiling.py --recipe imh-large

bench-baselines: setup ## our MAP beside that of each method's public code, and our times (needs MNIST; an hour)
	$(BIN)/python benchmarks/baseline_speed.py
	$(BIN)/python benchmarks/baselines.py

bench-search: setup ## the Hamming index beside FAISS (needs MNIST and photo-sift1m for its last parts)
	$(BIN)/python benchmarks/search.py

bench-scale: .venv/.extras-ready ## 20M rows out of core, a cluster, kill -9 (needs photo-sift1m, 4 GB of disk; ten minutes)
	$(BIN)/python benchmarks/scale.py

bench-gpu: ## encode, fit and search on a card beside its floors (needs torch with CUDA; fits need MNIST)
	$(BIN)/python benchmarks/gpu.py

clean: ## remove the virtual environment and what was made
	rm -rf .venv demo
