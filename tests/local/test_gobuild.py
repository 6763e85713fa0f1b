"""Go programs are built from pinned modules by the real Go toolchain, here from a module proxy that is a folder."""

from __future__ import annotations

import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from local import cache, gobuild, gotools, pins
from local.errors import LocalError
from local.gobuild import GoBuild

MODULE = "example.com/hello"
SOURCE = {
    "go.mod": f"module {MODULE}\n\ngo 1.24\n\nrequire example.com/word v1.0.0\n\nreplace example.com/word => ../word\n",
    "go.sum": "",
    "cmd/hello/main.go": (
        'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/word"\n)\n\nvar Version = "unset"\n\n'
        "func main() { fmt.Println(word.Word, Version) }\n"
    ),
}
WORD = {"go.mod": "module example.com/word\n\ngo 1.24\n", "word.go": 'package word\n\nconst Word = "hello"\n'}


def _publish(proxy: Path, module: str, version: str, files: dict[str, str]) -> None:
    """Lay a module version out as the module proxy protocol has it."""
    folder = proxy / module / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(f"{version}\n")
    (folder / f"{version}.info").write_text(f'{{"Version": "{version}", "Time": "2026-01-01T00:00:00Z"}}')
    (folder / f"{version}.mod").write_text(files["go.mod"])
    with zipfile.ZipFile(folder / f"{version}.zip", "w") as packed:
        for name, text in files.items():
            packed.writestr(f"{module}@{version}/{name}", text)


@pytest.fixture(scope="module")
def go_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Go's compiled standard library, shared by these tests: it takes seconds."""
    return tmp_path_factory.mktemp("go-build")


@pytest.fixture
def hello(tmp_path: Path, go_cache: Path, monkeypatch: pytest.MonkeyPatch) -> GoBuild:
    """A program in a module whose go.mod replaces a requirement by a sibling folder, served by a proxy of two modules."""
    go = gotools.toolchain()
    monkeypatch.setattr(gotools, "toolchain", lambda: go)
    proxy = tmp_path / "proxy"
    _publish(proxy, MODULE, "v1.2.3", SOURCE)
    _publish(proxy, "example.com/word", "v1.0.0", WORD)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOPROXY", f"file://{proxy}")
    monkeypatch.setenv("GONOSUMDB", "example.com/*")
    (tmp_path / "cache" / "llm-serving-stack").mkdir(parents=True)
    (tmp_path / "cache" / "llm-serving-stack" / "go-build").symlink_to(go_cache)
    asked = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@v1.2.3"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=gotools.environment(go),
    )  # fmt: skip
    total = asked.stdout.split('"Sum": "')[1].split('"')[0]
    monkeypatch.setitem(pins.GO_MODULES, "hello", pins.GoModule(path=MODULE, version="v1.2.3", sum=total))
    return GoBuild(
        name="hello", module="hello", programs={"hello": f"{MODULE}/cmd/hello"}, ldflags="-X main.Version=v1.2.3"
    )


def test_a_module_with_replacements_is_built_and_runs(hello: GoBuild) -> None:
    folder = gobuild.ensure(hello)
    assert [path.name for path in folder.iterdir()] == ["hello"]
    said = subprocess.run([folder / "hello"], capture_output=True, text=True, check=True)
    assert said.stdout == "hello v1.2.3\n"
    assert gobuild.is_built(hello)
    assert (gotools.fetch_module("hello") / "cmd" / "hello" / "main.go").read_text() == SOURCE["cmd/hello/main.go"]


def test_several_programs_are_built_at_once_and_what_is_there_is_kept(hello: GoBuild) -> None:
    other = GoBuild(name="other", module="hello", programs={"hello": f"{MODULE}/cmd/hello"})
    first = gobuild.ensure(hello)
    made = (first / "hello").stat().st_mtime_ns
    gobuild.Builds([hello, other]).wait()
    assert gobuild.is_built(other)
    assert (first / "hello").stat().st_mtime_ns == made


def test_one_build_can_be_waited_for_while_others_go_on_and_the_rest_is_not_begun_after_a_stop(
    hello: GoBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    made: list[str] = []

    def ensure(build: GoBuild) -> Path:
        if build is not hello:
            go_on.wait(30)
        made.append(build.name)
        return Path()

    monkeypatch.setattr(gobuild, "ensure", ensure)
    others = [GoBuild(name=name, module="hello", programs={"hello": "."}) for name in ("slow", "slower", "never")]
    running = gobuild.Builds([hello, *others])
    running.wait(hello)
    assert made == ["hello"]
    running.stop()
    go_on.set()
    running._pool.shutdown(wait=True)
    assert set(made) == {"hello", "slow", "slower"}


def test_one_build_that_fails_is_told_and_the_others_are_kept(hello: GoBuild) -> None:
    gone = GoBuild(name="gone", module="hello", programs={"gone": f"{MODULE}/cmd/gone"})
    running = gobuild.Builds([gone, hello])
    with pytest.raises(LocalError, match="go build of gone failed"):
        running.wait()
    running._pool.shutdown(wait=True)
    assert gobuild.is_built(hello)
    assert not gobuild.is_built(gone)


def test_a_module_of_another_hash_is_refused(hello: GoBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.GO_MODULES, "hello", pins.GoModule(path=MODULE, version="v1.2.3", sum="h1:other="))
    with pytest.raises(LocalError, match=r"Go module example\.com/hello v1\.2\.3 has hash h1:.*, pinned is h1:other="):
        gobuild.ensure(hello)
    assert not gobuild.is_built(hello)


def test_a_module_that_cannot_be_fetched_is_told_with_its_name(hello: GoBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.GO_MODULES, "hello", pins.GoModule(path=MODULE, version="v9.9.9", sum="h1:none="))
    with pytest.raises(LocalError, match=r"cannot fetch Go module example\.com/hello v9\.9\.9"):
        gobuild.ensure(hello)


def test_a_compile_error_shows_the_compilers_words_and_the_log(hello: GoBuild) -> None:
    broken = GoBuild(
        name="broken", module="hello", programs={"broken": "."},
        prepare=lambda work, _: (work / "main.go").write_text("package main\n\nfunc main() { undefined() }\n") and None,
    )  # fmt: skip
    with pytest.raises(LocalError, match=r"go build of broken failed \(log: .*\)(.|\n)*undefined: undefined"):
        gobuild.ensure(broken)
    assert not gobuild.is_built(broken)


def test_a_changed_linker_flag_is_another_entry(hello: GoBuild) -> None:
    other = GoBuild(name="hello", module="hello", programs=hello.programs, ldflags="-X main.Version=v2")
    assert hello.key() != other.key()


def test_staging_modules_of_kubernetes_become_their_published_versions() -> None:
    go_mod = {
        "Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.com/sdk"}, "New": {"Path": "../sdk"}},
            {"Old": {"Path": "example.com/a"}, "New": {"Path": "example.com/fork", "Version": "v0.0.1"}},
        ]
    }
    assert gobuild.outside_replacements(go_mod, "v1.34.2") == [
        "replace k8s.io/api => k8s.io/api v0.34.2",
        "replace example.com/a => example.com/fork v0.0.1",
    ]
    assert gobuild.outside_replacements({"Replace": None}, "v1.0.0") == []


def test_the_proxies_are_those_that_go_would_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "https://one.example,file:///two|http://three.example,direct")
    assert gotools.proxies() == ["https://one.example", "http://three.example"]
    monkeypatch.setenv("GOPROXY", "off")
    assert gotools.proxies() == []


def test_capital_letters_are_escaped_as_the_proxy_protocol_says() -> None:
    assert gotools.escaped("github.com/BurntSushi/toml") == "github.com/!burnt!sushi/toml"


def test_every_build_names_a_pinned_module() -> None:
    from local import builds

    # their CRDs and charts are read by tests
    sources_only = {"dra-driver", "envoy-gateway", "external-secrets", "gateway-api", "karpenter", "keda"}
    sources_only |= {"prometheus-operator", "volcano"}
    assert {build.module for build in builds.BUILDS} | sources_only == set(pins.GO_MODULES)
    assert len({build.name for build in builds.BUILDS}) == len(builds.BUILDS)
    assert cache.recipe_hash(*sorted(pin.sum for pin in pins.GO_MODULES.values()))
    assert all(pin.sum.startswith("h1:") and len(pin.sum) == 47 for pin in pins.GO_MODULES.values())
