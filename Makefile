# `make demo` and `make test` do everything, including the setup.
PYTHON ?= python3
BIN := .venv/bin
# By default the threads of FAISS spin between calls, which slows down everything else on a small machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*## .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.venv/.made:
	@echo "== creating the virtual environment .venv (once)"
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.test-ready: .venv/.made pyproject.toml
	@echo "== installing manihash and the dependencies of the demo and the tests"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

.venv/.check-ready: .venv/.test-ready pyproject.toml
	@echo "== installing the linters"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[check]'
	@touch $@

.venv/.extras-ready: .venv/.test-ready pyproject.toml
	@echo "== installing the databases for the tests of the optional parts (once)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test-extras]'
	@touch $@

.venv/.docs-ready: .venv/.test-ready pyproject.toml
	@echo "== installing what builds the documentation (once)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

setup: .venv/.test-ready ## create .venv with the dependencies of demo and test

demo: setup ## learn codes of handwritten digits, offline, and write demo/index.html
	$(BIN)/manihash demo --out demo
	@echo "(in this checkout: $(BIN)/manihash explore --data digits)"

paper: setup ## run the experiments of the paper on the datasets that are here, and write report/index.html: make paper ARGS=--quick
	$(BIN)/manihash paper $(ARGS)

# One process per core; the tests of a file share its fitted models, so they stay in one process.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile

test: setup ## run the tests that need no optional part, without the slow ones
	$(PYTEST) -m "not extra and not slow" --ignore=tests/campaigns

test-slow: setup ## run the slow tests that need no optional part
	$(PYTEST) -m "slow and not extra" --ignore=tests/campaigns

test-extras: .venv/.extras-ready ## run the tests of the optional parts, with real databases
	$(PYTEST) -m extra --ignore=tests/campaigns --ignore=tests/rows/test_dask_client.py --ignore=tests/notebook
	$(BIN)/python -m pytest -q -m extra tests/rows/test_dask_client.py  # the event loops of other tests disturb it
	$(BIN)/python -m pytest -q -m extra tests/notebook

fuzz: .venv/.extras-ready ## run generated tests, a short version of each, or more cases: make fuzz CASES=10000
	$(if $(CASES),MANIHASH_CASES=$(CASES)) $(PYTEST) tests/campaigns tests/web/test_openapi.py

KILLS ?= 200
ROUNDS ?= 300
torture: setup ## kill commands at random moments, fill the disk, threads beside each other: make torture KILLS=200 ROUNDS=300
	MANIHASH_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/campaigns/test_kill.py tests/campaigns/test_writers.py
	MANIHASH_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/web/test_rows.py -k kill_9
	MANIHASH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q tests/campaigns/test_threads.py
	MANIHASH_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/campaigns/test_resume.py
	MANIHASH_CASES=$(KILLS) $(BIN)/python -m pytest -q tests/campaigns/test_read_only.py
	MANIHASH_KILLS=$(KILLS) MANIHASH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q -m "not extra" tests/campaigns/test_store_kills.py

torture-extras: .venv/.extras-ready ## kill Dask workers in fit, and writers of LanceDB and PostgreSQL; threads that share a store
	MANIHASH_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/campaigns/test_dask_kills.py
	MANIHASH_KILLS=$(KILLS) MANIHASH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q -m extra tests/campaigns/test_store_kills.py

check: .venv/.check-ready ## check format, lint, spelling, types, layering, docstrings and their examples
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell src reproduction tests docs examples benchmarks README.md CONTRIBUTING.md CHANGELOG.md Makefile
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_docstrings.py
	$(BIN)/python -m pytest -q --doctest-modules --doctest-ignore-import-errors src/manihash

docs: .venv/.docs-ready ## build the documentation site in build/site, run its gallery, and check its links
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs build/site
	$(BIN)/python docs/check_site.py build/site

docs-serve: docs ## show the documentation site at http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind localhost --directory build/site

figures: setup ## write the tables and numbers of README and docs from docs/results
	$(BIN)/python docs/_ext/figures.py

JOBS ?= 2
bench-all: .venv/.extras-ready ## measure all results that are older than the code, all of them in about three and a half hours: make bench-all ONLY=timings (or quality, list) JOBS=2
	$(BIN)/python benchmarks/run_all.py $(addprefix --,$(ONLY)) --jobs $(JOBS)

bench-merge: setup ## take newer results of another machine: make bench-merge FROM=FOLDER
	$(BIN)/python benchmarks/run_all.py --merge $(FROM)

pictures: setup ## draw the pictures of README and of the first pages of the documentation
	$(BIN)/python docs/pictures.py

format: .venv/.check-ready ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## time encode, fit and search of MNIST beside their targets, for AVX2 and the kernels of this machine (ten minutes)
	$(BIN)/python benchmarks/speed.py

bench-fit: setup ## time fit and encode as multiples of the bare product, and compare with scikit-learn and FAISS (needs MNIST, photo-sift1m)
	$(BIN)/python benchmarks/fit.py

bench-choose: setup ## compare what choose recommends with the best candidate on the full sets (needs MNIST, CIFAR-10 GIST, photo-sift1m)
	$(BIN)/python benchmarks/choose.py
	$(BIN)/python benchmarks/choose_without_labels.py

bench-base-sizes: setup ## compare every row as a base point with one base point per six rows (needs MNIST; three minutes)
	$(BIN)/python benchmarks/base_sizes.py

bench-maintenance: setup ## drift, update and refit on MNIST, and updates that are killed (needs MNIST)
	$(BIN)/python benchmarks/maintenance.py

bench-bridge: setup ## search old codes with the vectors of new embedding models (needs MNIST, CIFAR-10 GIST; half an hour)
	$(BIN)/python benchmarks/bridge.py

bench-duplicates: .venv/.extras-ready ## find planted copies by codes and vectors, and groups among 100M codes, beside FAISS (needs MNIST, CIFAR-10 GIST, photo-sift1m, 6 GB of disk, 16 GB of memory; half an hour)
	$(BIN)/python benchmarks/duplicates.py
	$(BIN)/python benchmarks/duplicates_scale.py

bench-paper: setup ## run all experiments of the paper with one seed, for the documentation (needs all datasets; about an hour, resumable)
	$(BIN)/python benchmarks/paper.py

bench-databases: .venv/.extras-ready ## load and search one set of codes in every database (ten minutes)
	$(BIN)/python benchmarks/databases.py

bench-same-bits: setup ## count the bits that differ between kernels of BLAS, threads and batches (needs MNIST, photo-sift1m; 25 minutes, resumable)
	$(BIN)/python benchmarks/same_bits.py

bench-quality: setup ## measure MAP, precision@10 and recall@10 of all methods on ten datasets, and an SVM on codes (needs all datasets; two hours, resumable)
	$(BIN)/python benchmarks/run_all.py --quality --only quality: --jobs $(JOBS)
	$(BIN)/python benchmarks/run_all.py --quality --only svm: --jobs $(JOBS)

bench-compared: setup ## measure all methods with 4 to 64 bytes on all datasets, and write the page that compares them (needs all datasets; resumable)
	$(BIN)/python benchmarks/run_all.py --quality --only quality: --compared --jobs $(JOBS)
	$(BIN)/python benchmarks/run_all.py --timings --only compared-speed:
	$(BIN)/python docs/compared.py
	$(BIN)/python docs/_ext/figures.py

bench-onnx: .venv/.extras-ready ## compare ONNX files with encode, and time one row (needs MNIST; five minutes)
	$(BIN)/python benchmarks/onnx_files.py

bench-quantizers: setup ## compare PQ and OPQ with those of FAISS on five datasets (half an hour, most of it FAISS's OPQ)
	$(BIN)/python benchmarks/quantizers.py

WORD := imh-hybrid,imh-hybrid-hamming,imh-graph,pq,opq,scan
bench-word: setup ## measure the word of 4 to 64 bytes beside quantizers and the vectors, and its search (needs all datasets; resumable)
	$(BIN)/python benchmarks/run_all.py --quality --methods $(WORD) --jobs $(JOBS)
	$(BIN)/python benchmarks/word_search.py
	$(BIN)/python docs/_ext/figures.py

bench-word-search: setup ## time the search of words beside FAISS (needs MNIST; five minutes)
	$(BIN)/python benchmarks/word_search.py

profile: setup ## show where fit and encode spend their time (needs MNIST)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[profile]'
	$(BIN)/python benchmarks/profiling.py --recipe imh-tsne
	$(BIN)/python benchmarks/profiling.py --recipe imh-large

bench-baselines: setup ## time the baselines as ratios (needs MNIST; five minutes)
	$(BIN)/python benchmarks/baseline_speed.py

bench-search: setup ## compare the Hamming index with FAISS (its last parts need MNIST and photo-sift1m)
	$(BIN)/python benchmarks/search.py

bench-scale: .venv/.extras-ready ## measure 20M rows out of core, a cluster, and kill -9 (needs photo-sift1m, 4 GB of disk; ten minutes)
	$(BIN)/python benchmarks/scale.py

bench-serve: setup ## load-test manihash serve beside a constant answer and FAISS, with malformed requests and kill -9 (needs MNIST; ten minutes)
	$(BIN)/python benchmarks/serve.py

bench-gpu: ## time encode, fit and search on a GPU and compare with lower bounds (needs torch with CUDA; fits need MNIST)
	$(BIN)/python benchmarks/gpu.py

coverage: .venv/.check-ready ## measure which lines the tests run, and write htmlcov/index.html
	$(BIN)/python -m pytest -q -m "not extra" --cov=manihash --cov=reproduction --cov-report=term:skip-covered --cov-report=html

test-core: ## run the tests with the core dependencies only, in an environment of its own
	$(PYTHON) -m venv .venv-core
	.venv-core/bin/pip install --quiet --disable-pip-version-check -e . pytest hypothesis
	.venv-core/bin/python -m pytest -q -m "not extra"

test-oldest: ## run the tests with the oldest supported versions (tests/oldest-versions.txt)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check -c tests/oldest-versions.txt -e . pytest hypothesis
	.venv-oldest/bin/python -m pytest -q -m "not extra"

dist: .venv/.made ## build sdist and wheel, check them, and try the wheel in an empty environment
	$(BIN)/pip install --quiet --disable-pip-version-check build twine check-wheel-contents
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	.ci/try-wheel dist/*.whl

release-check: .venv/.docs-ready ## list all that stands against a release, and what to do: make release-check ONLY=quick builds and runs nothing
	$(BIN)/python .ci/release_check.py $(addprefix --,$(ONLY))

bench-explore: .venv/.extras-ready ## measure the first picture and the frames per second of manihash explore (needs MNIST and Chromium)
	$(BIN)/python benchmarks/explore.py

clean: ## remove the virtual environments, the demo and what was built
	rm -rf .venv .venv-core .venv-oldest demo dist htmlcov .coverage build docs/gallery docs/api/generated docs/api/*.rst
