# Every target sets up what it needs from nothing; `make` alone lists them.

BIN := .venv/bin
INSTALLED := .venv/.installed
CLASSES := .build/spark-classes.jsa
WORKERS ?= 2

.PHONY: help demo example test lint docs format bench sim soak pictures constraints java broker browser compiler clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) java ## sensors and a replicated pipeline on Spark, killed and cut: the answers hold
	$(BIN)/holdfast demo

example: $(INSTALLED) java ## run one of examples/: NAME=billing, roads or machines
	$(BIN)/python examples/$(or $(NAME),roads)/example.py $(ARGS)

test: $(INSTALLED) $(CLASSES) broker browser compiler ## run every test; ARGS="-k name" passes options to pytest
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(INSTALLED) docs ## check style, formatting, types, and the links of the documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(INSTALLED) ## build the site of docs/ into site/; a broken link or anchor fails
	$(BIN)/sphinx-build --builder html --fresh-env --fail-on-warning --keep-going --quiet docs site

format: $(INSTALLED) ## reformat the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED) ## measure and check the claims; PART=name for one part
	$(BIN)/python -m benchmarks $(PART)

sim: $(INSTALLED) ## break simulated pipelines in virtual time; ARGS="--seeds 10000 --faults clocks"
	$(BIN)/python -m simulator $(ARGS)

soak: $(INSTALLED) ## long fault campaigns; PART=name SEEDS=n MINUTES=m FIRST=seed; SEED=n replays one
	$(BIN)/python -m soak $(PART) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FIRST),--first $(FIRST)) $(if $(SEED),--seed $(SEED))

pictures: $(INSTALLED) java browser ## draw the pictures of docs/ anew
	$(BIN)/python scripts/draw-forests.py
	$(BIN)/python scripts/draw-approximation.py
	$(BIN)/python scripts/draw-failure.py
	$(BIN)/python scripts/write-topology-reference.py
	PYTHONPATH=. $(BIN)/python scripts/draw-console.py

constraints: ## pin the newest dependencies that fit pyproject.toml and benchmarks/peers.in
	scripts/refresh-constraints.sh

clean: ## remove the environments and everything generated
	rm -rf .venv .venv-peers .build demo-output examples/*/output site dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@scripts/require-java.sh

broker:
	@scripts/require-mosquitto.sh

browser:
	@scripts/require-chromium.sh

compiler:
	@scripts/require-compiler.sh

$(CLASSES): $(INSTALLED) scripts/archive-classes.py | java
	@mkdir -p $(@D)
	$(BIN)/python scripts/archive-classes.py $@ 2> $@.log || { cat $@.log; exit 1; }

$(INSTALLED): pyproject.toml constraints.txt scripts/create-venv.sh
	scripts/create-venv.sh .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fast,dev]'
	@touch $@
