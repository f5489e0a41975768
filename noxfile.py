"""Everything that must pass: `uv run nox`. Beyond that: `nox -s clients`, `nox -s frontend`, `nox -s browser`, `nox -s bench`.

Sessions install the versions of requirements.lock, checked by hash. `GW_LATEST=1` installs the newest versions that
pyproject.toml allows instead, to learn early what the next lock would break.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["tests", "lint", "types", "imports", "docs", "site", "build"]
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml("pyproject.toml")
CLIENTS = Path("tests/clients")
OLDER = "*/test_older*.py"
PROGRAMS = "*/test_programs*.py"
SUITES = "*/test_suites*.py"
BROWSER = Path("tests/browser")
FRONTEND = Path("frontend")
LATEST = os.environ.get("GW_LATEST", "") not in ("", "0")
NIGHTLY = (
    "tests/contract/test_leaving.py", "tests/contract/test_fault_matrix.py", "tests/contract/test_socket_cases.py",
    "tests/contract/test_access__matrix.py", "tests/contract/test_access_roles.py", "tests/contract/test_vendor_matrix.py",
    "tests/e2e/test_kill.py",
    "tests/e2e/test_workers_kill.py", "tests/e2e/test_alerts__kills.py",
    "tests/store/test_store__power_cuts.py", "tests/store/test_store__corrupt.py", "tests/e2e/test_stop__many.py",
    "tests/contract/test_impossible_times.py", "tests/store/postgres/test_postgres_store.py",
)  # fmt: skip
"""Tests with a long form, see tests/fakes/nightly.py."""
STAND_IN = "tests/relay/test_hedging.py"
CORES = os.cpu_count() or 1
PARALLEL = ("-n", str(CORES + CORES // 2), "--dist", "worksteal")
"""pytest-xdist: three processes for two cores, since tests wait a third of the time for programs they started; `nox -s tests -- -n 0`
runs in one process."""


def install(session: nox.Session, *groups: str) -> None:
    """gw itself, editable, with its dependencies and those of `groups`."""
    # Tests start `gw` hundreds of times; without stored bytecode each start compiles every module anew, 0.5 s of processor time.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    if LATEST:
        session.log("newest versions that pyproject.toml allows (GW_LATEST)")
        session.install("--upgrade", "-e", ".", *nox.project.dependency_groups(PROJECT, *groups))
    else:
        session.install("--require-hashes", "-r", "requirements.lock")
        session.install("--no-deps", "-e", ".")


def npm_ci(session: nox.Session, folder: Path, *arguments: str) -> None:
    """Install what a folder's package-lock.json pins. That counts as installation: `nox --install-only` does it, `nox -R` does not."""
    session.run_install("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", *arguments, "--prefix", str(folder), external=True)


def locked_versions(folder: Path) -> Path:
    """The lock without its hashes: a wheel just built has none, and one file with hashes asks for all."""
    versions = [line.removesuffix(" \\") for line in Path("requirements.lock").read_text().splitlines() if "==" in line]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(versions))
    return constraints


@nox.session
def tests(session: nox.Session) -> None:
    """The test suite; arguments after -- go to pytest."""
    install(session, "test")
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        session.warn("LEFT OUT: the store on PostgreSQL, because no server is installed (Debian package: postgresql)")
    # Left out by folder as well: their modules import what only their own sessions install.
    apart = [f"--ignore={folder}" for folder in (CLIENTS, BROWSER)]
    session.run("pytest", "-q", *PARALLEL, "-m", "not clients and not browser", *apart, *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """The long forms of tests that are short in `tests`; then `generated`, `matrix`, `fleet`, `fuzz` and `soak`, also after a failure.

    Arguments after -- go to pytest, and nothing follows then.
    """
    if not session.posargs:
        for name in ("generated", "matrix", "fleet", "fuzz", "soak"):
            session.notify(name)
    install(session, "test")
    session.run("pytest", "-q", "-s", "-p", "no:xdist", *NIGHTLY, *session.posargs, env={"GW_NIGHTLY": "1"})


@nox.session
def generated(session: nox.Session) -> None:
    """100,000 requests, made by schemathesis from the gateway's OpenAPI document; arguments after -- go to pytest."""
    install(session, "test")
    lines = (CLIENTS / "requirements.txt").read_text().splitlines()
    (wanted,) = [line.partition("#")[0].strip() for line in lines if line.startswith("schemathesis")]
    session.install(wanted)
    test = str(CLIENTS / "test_schemathesis.py")
    session.run("pytest", "-q", "-s", "-m", "clients", test, *session.posargs, env={"GW_NIGHTLY": "1"})


@nox.session
def matrix(session: nox.Session) -> None:
    """Every call of docs/matrix.md by an unchanged SDK; arguments after -- go to pytest."""
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements.txt"))
    test = str(CLIENTS / "test_vendor_matrix_sdks.py")
    session.run("pytest", "-q", "-s", "-m", "clients", test, *session.posargs, env={"GW_NIGHTLY": "1"})


@nox.session
def fleet(session: nox.Session) -> None:
    """A fleet whose members are killed 100 times and whose server fails 20 times, and five minutes of a rate; needs redis-server."""
    install(session, "test")
    lines = (CLIENTS / "requirements.txt").read_text().splitlines()
    (wanted,) = [line.partition("#")[0].strip() for line in lines if line.startswith("valkey-glide")]
    session.install(wanted)
    tests = [str(CLIENTS / f"test_valkey_{name}.py") for name in ("chaos", "kills", "load")]
    session.run("pytest", "-q", "-s", "-m", "clients", *tests, *session.posargs, env={"GW_NIGHTLY": "1"})


@nox.session
def soak(session: nox.Session) -> None:
    """200 mixed streams for 20 minutes; arguments after -- go to bench/soak.py (`--minutes 60`)."""
    install(session, "test")
    session.run("python", "bench/soak.py", *(session.posargs or ("--minutes", "20")))


@nox.session
def fuzz(session: nox.Session) -> None:
    """Every decoder, guided by its coverage, with atheris: `nox -s fuzz -- SECONDS [DECODER ...]`; 3,600 s by default."""
    install(session, "test")
    session.install("-r", "tests/fuzz/requirements.txt")
    session.run("python", "-m", "tests.fuzz.run", *(session.posargs or ("3600",)), env={"PYTHONPATH": "."})


@nox.session
def lint(session: nox.Session) -> None:
    install(session, "lint")
    session.run("ruff", "check", ".")
    off = [
        "ASYNC9",  # a checkpoint in every function: trio's own rule, not one for its users; off by default
        "ASYNC102",  # an await in `finally` needs a shield: ours are a forced close and a hand-over that do not wait
        "ASYNC114",  # asks to be told what is startable; ASYNC113 then works on names
        "ASYNC120",  # a short wait inside `except`: its bound is in the code, the exception is raised after it
        "ASYNC123",  # forbids what errors.one_error() is for
        "ASYNC124",  # views, ASGI functions and protocols must be async, whether they wait or not
        "ASYNC128",  # does not see a task_status that is handed on
    ]
    # It takes some 0.4 s a module: modules without a word of trio are left out, and one process per core reads every nth.
    concurrent = re.compile(r"\b(async|await|trio)\b")
    modules = [str(module) for module in sorted(Path("gw").rglob("*.py")) if concurrent.search(module.read_text(encoding="utf-8"))]
    cores = min(CORES, len(modules))
    with ThreadPoolExecutor(cores) as pool:
        parts = [pool.submit(session.run, "flake8-async", f"--disable={','.join(off)}", *modules[n::cores]) for n in range(cores)]
    for part in parts:
        part.result()  # raises where there are findings


@nox.session
def types(session: nox.Session) -> None:
    install(session, "test", "lint")
    session.run("mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """The layers of docs/architecture.md."""
    install(session, "lint")
    session.run("lint-imports", "--no-cache")


@nox.session
def docs(session: nox.Session) -> None:
    """Links resolve, and docs/cli.md says what `gw --help` says."""
    install(session, "test")
    session.run("python", "docs/check.py", *session.posargs)


VALE = "github.com/vale-cli/vale/v3/cmd/vale@v3.22.0"
"""Later releases want modules that the module proxy may not have."""


@nox.session
def prose(session: nox.Session) -> None:
    """How the documentation is written: reading grade, length of sentences, words, by Vale and docs/styles. Needs vale, or go and gcc."""
    if shutil.which("vale") is None:
        if not (shutil.which("go") and shutil.which("gcc")):
            session.warn(f"LEFT OUT: how the documentation is written, because Vale is not installed (go install {VALE})")
            return
        session.run("go", "install", VALE, external=True, success_codes=[0, 1])
        folder = str(session.run("go", "env", "GOPATH", external=True, silent=True)).strip()
        session.env["PATH"] = f"{os.environ['PATH']}:{folder}/bin"
        if shutil.which("vale", path=session.env["PATH"]) is None:
            session.warn("LEFT OUT: how the documentation is written, because Vale cannot be built; go says above why")
            return
    install(session, "test")
    names = [*Path().glob("*.md"), *Path("docs").rglob("*.md"), *Path("examples").rglob("*.md")]
    session.run("vale", "--config", "docs/vale.ini", "--output", "line", *sorted(map(str, names)), external=True)
    session.run("pytest", "-q", "tests/docs/test_vale.py")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation as a searchable site, into site/; a broken link, anchor or picture fails it."""
    install(session, "test", "docs")
    session.run("python", "docs/build_site.py", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """sdist and wheel; the wheel works in an environment of its own; the bill of materials of what it was tested with."""
    out = Path(session.create_tmp()).resolve()
    for old in out.glob("gw_voice-*"):
        old.unlink()
    session.install("build[uv]")
    session.run("python", "-m", "build", "--installer=uv", "--outdir", str(out), silent=True)
    (wheel,) = out.glob("gw_voice-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    for needed in ("gw/py.typed", "gw/config/gw.yaml.example", "gw/cli/main.py", "gw/frontend_dist/index.html"):
        if needed not in held:
            session.error(f"{wheel.name} lacks {needed}")
    session.install(str(wheel), "--constraint", str(locked_versions(out)))
    session.run("python", ".ci/sbom.py", str(out / "gw.cdx.json"))
    session.chdir(out)
    session.run("gw", "--version")


def has_compiler(session: nox.Session) -> bool:
    if any(map(shutil.which, ("cc", "gcc", "clang"))):
        return True
    session.warn("LEFT OUT: the compiled wheel, because there is no C compiler (Debian package: gcc)")
    return False


def build_compiled(session: nox.Session, folder: Path) -> Path:
    """Build the wheel with compiled modules in a folder, which is emptied first, and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    session.install("build[uv]")
    build = ("python", "-m", "build", "--installer=uv", "--wheel", "--outdir", str(folder))
    session.run(*build, env={"HATCH_BUILD_HOOKS_ENABLE": "1"}, silent=True)
    (wheel,) = folder.glob("gw_voice-*.whl")
    if "none-any" in wheel.name:
        session.error(f"{wheel.name} is not compiled")
    return wheel


@nox.session
def compiled_wheel(session: nox.Session) -> None:
    """Build the wheel with compiled modules, for this platform and Python; needs a C compiler."""
    if has_compiler(session):
        session.log(str(build_compiled(session, Path(session.create_tmp()).resolve() / "dist")))


@nox.session
def compiled(session: nox.Session) -> None:
    """The test suite against the wheel with compiled modules; needs a C compiler. Arguments after -- go to pytest.

    `GW_WHEEL` names a wheel that `compiled_wheel` has built of these sources; without it one is built.
    """
    if not has_compiler(session):
        return
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    out = Path(session.create_tmp()).resolve()
    tree = out / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    session.install("--require-hashes", "-r", "requirements.lock")
    given = os.environ.get("GW_WHEEL", "")
    wheel = Path(given).resolve() if given else build_compiled(session, out / "dist")
    # The tests stand beside the files of the wheel, so that no path leads to the checkout's modules.
    left_out = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "dist", "build")
    shutil.copytree(Path.cwd(), tree, ignore=left_out)
    shutil.rmtree(tree / "gw")
    shutil.copytree(".ci", tree / ".ci")
    zipfile.ZipFile(wheel).extractall(tree)
    session.install("--no-deps", str(wheel))
    session.chdir(tree)
    apart = [f"--ignore={folder}" for folder in (CLIENTS, BROWSER)]
    session.warn(f"LEFT OUT: {STAND_IN}, whose request is a stand-in: compiled attempts take none but a RequestContext")
    apart.append(f"--ignore={STAND_IN}")
    env = {"GW_EDITION": "compiled"}
    session.run("pytest", "-q", *PARALLEL, "-m", "not clients and not browser", *apart, *session.posargs, env=env)


@nox.session
def image(session: nox.Session) -> None:
    """Build the container image from Debian's packages, and run it. Needs root, podman, runc and mmdebstrap, and no registry of images."""
    if missing := [name for name in ("podman", "runc", "mmdebstrap") if shutil.which(name) is None]:
        session.warn(f"LEFT OUT: the container image, because of what is not installed (Debian packages: {', '.join(missing)})")
        return
    session.run("python", "-m", "tests.deploy.debian_images", *session.posargs)


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of the packages that requirements.lock pins, as PyPI lists them. Needs the network."""
    session.install("pip-audit>=2.10,<3")
    found = Path(session.create_tmp()).resolve() / "audit.json"
    found.unlink(missing_ok=True)
    # Hashes and versions are in the lock, so nothing is resolved or downloaded: one question for each package.
    lock = ("--require-hashes", "--disable-pip", "--requirement", "requirements.lock")
    session.run("pip-audit", *lock, "--format", "json", "--output", str(found), success_codes=[0, 1])
    if not found.exists():
        session.warn("LEFT OUT: known vulnerabilities, because pip-audit could not ask PyPI; it says above why")
        return
    packages = json.loads(found.read_text())["dependencies"]
    known = [f"{one['name']} {one['version']}: {bad['id']}" for one in packages for bad in one.get("vulns", ())]
    skipped = [f"{one['name']}: {one['skip_reason']}" for one in packages if "skip_reason" in one]
    if skipped:
        session.warn(f"LEFT OUT: {len(skipped)} of {len(packages)} packages, {skipped[0]} and so on")
    if known:
        session.error("known vulnerabilities: " + "; ".join(known))
    session.log(f"{len(packages) - len(skipped)} packages, no known vulnerability")


@nox.session
def clients(session: nox.Session) -> None:
    """Unchanged third-party voice clients against a running gateway; `clients_older`, `clients_programs` and `suites` come
    after it, unless GW_ALONE=1. Needs flite, promtool, redis-server, java, node and npm."""
    if os.environ.get("GW_ALONE", "") in ("", "0"):
        for name in ("clients_older", "clients_programs", "suites"):
            session.notify(name)
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements.txt"))
    leave_out = [f"--ignore-glob={OLDER}", f"--ignore-glob={PROGRAMS}", f"--ignore-glob={SUITES}"]
    if shutil.which("flite") is None:
        session.warn("LEFT OUT: real speech, because flite is not installed (Debian package: flite)")
        leave_out.append("--ignore-glob=*/test_speech*.py")
    if shutil.which("promtool") is None:
        session.warn("LEFT OUT: Prometheus' metrics check, because promtool is not installed (Debian package: prometheus)")
        leave_out.append("--ignore-glob=*/test_promtool*.py")
    if not (shutil.which("valkey-server") or shutil.which("redis-server")):
        session.warn("LEFT OUT: several gateways on one budget, because no Valkey or Redis is installed (Debian package: redis-server)")
        leave_out.append("--ignore-glob=*/test_valkey*.py")
    if not (shutil.which("haproxy") and list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))):
        session.warn("LEFT OUT: the example of a fleet, because haproxy or PostgreSQL is not installed (Debian: haproxy, postgresql)")
        leave_out.append("--ignore-glob=*/test_valkey_example.py")
    if shutil.which("java") is None:
        session.warn("LEFT OUT: the JDK's HTTP client, because java is not installed (Debian package: default-jdk-headless)")
        leave_out.append("--ignore-glob=*/test_java*.py")
    if shutil.which("node") and shutil.which("npm"):
        for folder in (CLIENTS / "node", CLIENTS / "node" / "mcp", CLIENTS / "node" / "oidc"):  # mcp brings the newer node that it needs
            npm_ci(session, folder)
    else:
        session.warn("LEFT OUT: Node SDKs, MCP tools, an OpenID provider, because node or npm is missing (Debian packages: nodejs, npm)")
        leave_out += ["--ignore-glob=*/test_node*.py", "--ignore-glob=*/test_mcp*.py", "--ignore-glob=*/test_oidc*.py"]
    session.run("pytest", "-q", *PARALLEL, "-m", "clients", str(CLIENTS), *leave_out, *session.posargs)


@nox.session
def clients_older(session: nox.Session) -> None:
    """Clients that want an earlier major version of what `clients` installs."""
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements_older.txt"))
    tests = [str(path) for path in sorted(CLIENTS.glob(Path(OLDER).name))]
    nothing_chosen = 5
    session.run("pytest", "-q", "-m", "clients", *tests, *session.posargs, success_codes=[0, nothing_chosen])


def _fetch_jars(session: nox.Session, folder: Path) -> str:
    """Fetch the libraries of the programs on the JVM; return why that cannot be done, or nothing."""
    if not (shutil.which("javac") and shutil.which("mvn")):
        return "javac or mvn is not installed (Debian packages: default-jdk-headless, maven)"
    command = ("mvn", "-q", "-B", "-f", str(CLIENTS / "programs" / "java" / "pom.xml"), "dependency:copy-dependencies")
    session.run_install(*command, f"-DoutputDirectory={folder}", external=True, success_codes=[0, 1])
    return "" if any(folder.glob("spring-ai-openai-*.jar")) else "Maven cannot fetch their libraries; it says above why"


@nox.session
def clients_programs(session: nox.Session) -> None:
    """Frameworks for agents, each as its documentation shows. Needs node and npm, javac and mvn."""
    if not (shutil.which("node") and shutil.which("npm")):
        session.warn("LEFT OUT: frameworks for agents, because node or npm is not installed (Debian packages: nodejs, npm)")
        return
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements_programs.txt"))
    npm_ci(session, CLIENTS / "programs", "--ignore-scripts")
    jars = Path(session.create_tmp()).resolve() / "jars"
    why = _fetch_jars(session, jars)
    if why:
        session.warn(f"LEFT OUT: programs on the JVM, because {why}")
    leave_out = ["-k", "not test_jvm"] if why else []
    env = {"GW_JARS": str(jars)}
    session.run("pytest", "-q", "-m", "clients", str(CLIENTS / "test_programs.py"), *leave_out, *session.posargs, env=env)


@nox.session
def suites(session: nox.Session) -> None:
    """The vendors' own SDK test suites, out of their releases, against a running gateway."""
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements_suites.txt"))
    pinned = CLIENTS / "suites" / "sdists.txt"
    # A folder for each content of the file, so that no earlier release lies beside what it pins now.
    sdists = Path(session.create_tmp()).resolve() / f"sdists-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    # Without isolation pip makes no environment for each SDK only to read its version.
    download = ("pip", "download", "-q", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes")
    session.run_install("python", "-m", *download, "-r", str(pinned), "-d", str(sdists))
    env = {"GW_SDISTS": str(sdists)}
    # pytest-asyncio is for their tests, not for ours, which have no settings for it.
    session.run("pytest", "-q", "-p", "no:asyncio", "-m", "clients", str(CLIENTS / "test_suites.py"), *session.posargs, env=env)


@nox.session
def suites_cloned(session: nox.Session) -> None:
    """More test suites of vendors, out of clones of their repositories: `nox -s suites_cloned -- FOLDER`. Not in CI, which has none."""
    if not session.posargs:
        session.error("name the folder that has the clones; docs/clients.md says which, and how to make them")
    folder, *arguments = session.posargs
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements.txt"), "pytest-asyncio>=1.4,<2")
    env = {"GW_CLONES": str(Path(folder).resolve())}
    session.run("pytest", "-q", "-p", "no:asyncio", "-m", "clients", str(CLIENTS / "test_suites_cloned.py"), *arguments, env=env)


@nox.session
def suites_livekit(session: nox.Session) -> None:
    """LiveKit's tests of its plugins and its example agents, out of a clone: `nox -s suites_livekit -- FOLDER`. Not in CI."""
    if not session.posargs:
        session.error("name the folder that has the clone `agents`; docs/clients.md says how to make it")
    folder, *arguments = session.posargs
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements.txt"), "-r", str(CLIENTS / "requirements_suites_livekit.txt"))
    env = {"GW_CLONES": str(Path(folder).resolve())}
    # The plugins are for LiveKit's tests, not for ours, which have no settings for them.
    apart = ("-p", "no:asyncio", "-p", "no:asyncio-concurrent")
    session.run("pytest", "-q", *apart, "-m", "clients", *map(str, sorted(CLIENTS.glob("test_suites_livekit*.py"))), *arguments, env=env)


@nox.session
def suites_pipecat(session: nox.Session) -> None:
    """Examples of Pipecat, out of a clone: `nox -s suites_pipecat -- FOLDER`. Not in CI."""
    if not session.posargs:
        session.error("name the folder that has the clone `pipecat`; docs/clients.md says how to make it")
    folder, *arguments = session.posargs
    install(session, "test")
    session.install("-r", str(CLIENTS / "requirements_suites_pipecat.txt"))
    env = {"GW_CLONES": str(Path(folder).resolve())}
    session.run("pytest", "-q", "-m", "clients", str(CLIENTS / "test_suites_pipecat.py"), *arguments, env=env)


@nox.session
def frontend(session: nox.Session) -> None:
    """Check the format, lint, test and build the dashboard; its types and the build must equal what is committed. Needs node and npm."""
    if not (shutil.which("node") and shutil.which("npm")):
        session.warn("LEFT OUT: building the dashboard, because node or npm is not installed (Debian packages: nodejs, npm)")
        return
    install(session, "test")
    out = Path(session.create_tmp()).resolve() / "frontend_dist"
    types = FRONTEND / "src" / "lib" / "types.gen.ts"
    committed = types.read_bytes()
    npm_ci(session, FRONTEND)
    session.run("python", "frontend/scripts/write_types.py")
    if types.read_bytes() != committed:
        session.error(f"{types} was older than the API; it is written anew")
    for script in ("lint", "test"):
        session.run("npm", "run", script, "--prefix", str(FRONTEND), external=True)
    session.run("npm", "run", "build", "--prefix", str(FRONTEND), external=True, env={"GW_FRONTEND_OUT": str(out)})
    session.run("diff", "-r", "frontend_dist", str(out), external=True)


@nox.session
def browser(session: nox.Session) -> None:
    """The dashboard, and SDKs in a page, in Debian's Chromium. Needs chromium; node and npm for axe and the SDKs."""
    if shutil.which("chromium") is None:
        session.warn("LEFT OUT: the dashboard in a browser, because chromium is not installed (Debian package: chromium)")
        return
    install(session, "test")
    session.install("-r", str(BROWSER / "requirements.txt"))
    leave_out: list[str] = []
    if shutil.which("node") and shutil.which("npm"):
        npm_ci(session, FRONTEND)
        npm_ci(session, BROWSER / "sdks", "--ignore-scripts")
    else:
        session.warn("LEFT OUT: axe and SDKs in a page, because node or npm is not installed (Debian packages: nodejs, npm)")
        leave_out += ["--ignore-glob=*/test_axe.py", "--ignore-glob=*/test_sdks.py"]
    if not (shutil.which("valkey-server") or shutil.which("redis-server")):
        session.warn("LEFT OUT: the fleet in the dashboard, because no Valkey or Redis is installed (Debian package: redis-server)")
        leave_out.append("--ignore-glob=*/test_fleet.py")
    # A browser keeps a core busy.
    session.run("pytest", "-q", "-n", str(CORES), "--dist", "worksteal", "-m", "browser", str(BROWSER), *leave_out, *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Added latency and CPU per request against a fake provider on loopback; arguments after -- go to bench/run.py."""
    install(session, "test")
    session.run("python", "bench/run.py", *session.posargs)
