#!/usr/bin/env python3
"""Difflet and huggingface_hub on one cache, in both directions, against tests/hub/fake_hub.py.

    check_with_huggingface_hub.py DIFFLET    DIFFLET is the binary; needs `pip install huggingface_hub`

By hand, not in CI. Prints a line for each check; the exit status is 1 if one fails.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DIFFLET = os.path.abspath(sys.argv[1])
FAILED = []


def check(name, ok, detail=""):
    print(f"{'ok  ' if ok else 'FAIL'} {name}{'' if ok else f': {detail}'}")
    if not ok:
        FAILED.append(name)


def difflet(*words, **environment):
    return subprocess.run([DIFFLET, *words], capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=120)


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes()
            for p in sorted(Path(folder).rglob("*")) if p.is_file()}


class Log:
    def __init__(self, path):
        self.path = path

    def bodies(self, part=""):
        """Requests for the bytes of files."""
        if not self.path.exists():
            return 0
        lines = map(json.loads, self.path.read_text().splitlines())
        return sum(1 for x in lines if x["method"] == "GET" and "/api/" not in x["path"]
                   and part in x["path"])


def main():
    work = Path(tempfile.mkdtemp(prefix="difflet-hub-"))
    hub = work / "hub"
    shutil.copytree(ROOT / "demo", hub / "repos/org/demo")
    (hub / "repos/org/demo/README.md").write_text("readme\n")
    server = subprocess.Popen([sys.executable, ROOT / "tests/hub/fake_hub.py", hub])
    try:
        while not (hub / "ports.json").exists():
            time.sleep(0.02)
        port = json.loads((hub / "ports.json").read_text())["hub"]
        os.environ |= {"HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HUB_DISABLE_XET": "1",
                       "HF_HOME": str(work / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                       "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
        run_checks(work, Log(hub / "log.jsonl"))
    finally:
        server.kill()
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if FAILED else 0)


def run_checks(work, log):
    import filelock
    import huggingface_hub as hf  # reads the environment
    print(f"huggingface_hub {hf.__version__}, filelock {filelock.__version__}")
    patterns = ["*.json", "*/*.json", "*/*.safetensors"]

    # Ours, then theirs.
    cache = str(work / "ours")
    r = difflet("download", "org/demo", HF_HUB_CACHE=cache)
    check("difflet downloads", r.returncode == 0, r.stderr)
    folder, bodies = r.stdout.strip(), log.bodies()
    check("snapshot_download finds ours offline",
          hf.snapshot_download("org/demo", cache_dir=cache, local_files_only=True) == folder)
    check("snapshot_download takes ours online",
          hf.snapshot_download("org/demo", cache_dir=cache, allow_patterns=patterns) == folder)
    check("hf_hub_download takes ours", hf.hf_hub_download(
        "org/demo", "vae/config.json", cache_dir=cache).startswith(folder))
    check("without a byte", log.bodies() == bodies, f"{log.bodies()} bodies, before {bodies}")
    check("try_to_load_from_cache finds ours", hf.try_to_load_from_cache(
        "org/demo", "model_index.json", cache_dir=cache) == f"{folder}/model_index.json")
    compare_scans(hf, cache)

    # Theirs, then ours.
    cache = str(work / "theirs")
    folder = hf.snapshot_download("org/demo", cache_dir=cache)
    bodies = log.bodies()
    r = difflet("download", "org/demo", HF_HUB_CACHE=cache)
    check("difflet takes theirs", r.stdout.strip() == folder, r.stderr)
    check("without a byte", log.bodies() == bodies, f"{log.bodies()} bodies, before {bodies}")
    r = difflet("inspect", "--model", "org/demo", HF_HUB_CACHE=cache, HF_HUB_OFFLINE="1")
    check("difflet inspects theirs by id", r.returncode == 0, r.stderr)
    compare_scans(hf, cache)

    # One file of theirs, the rest ours.
    cache = str(work / "mixed")
    hf.hf_hub_download("org/demo", "tokenizer/tokenizer.json", cache_dir=cache)
    r = difflet("download", "org/demo", HF_HUB_CACHE=cache, HF_HUB_OFFLINE="1")
    check("a part of theirs is not complete", r.returncode == 3, r.stderr)
    r = difflet("download", "org/demo", HF_HUB_CACHE=cache)
    check("difflet completes it", r.returncode == 0 and files(r.stdout.strip()) == {
        k: v for k, v in files(folder).items() if k != "README.md"}, r.stderr)
    compare_scans(hf, cache)

    # Files instead of links.
    cache = str(work / "files")
    r = difflet("download", "org/demo", HF_HUB_CACHE=cache, HF_HUB_DISABLE_SYMLINKS="1")
    check("theirs finds files in the place of links", hf.snapshot_download(
        "org/demo", cache_dir=cache, local_files_only=True) == r.stdout.strip(), r.stderr)
    compare_scans(hf, cache)
    check_locks(work, log, filelock, hf)


def compare_scans(hf, cache):
    theirs = hf.scan_cache_dir(cache)
    check("no warnings of the scan", not theirs.warnings, theirs.warnings)
    ours = [json.loads(line) for line in
            difflet("cache", "models", "--json", HF_HUB_CACHE=cache).stdout.splitlines()]
    expected = {r.repo_id: (r.size_on_disk, r.nb_files, sorted(
        (v.commit_hash, v.size_on_disk, len(v.files), sorted(v.refs)) for v in r.revisions))
        for r in theirs.repos}
    found = {m["id"]: (m["bytes"], m["files"], sorted(
        (v["commit"], v["bytes"], v["files"], v["refs"]) for v in m["revisions"])) for m in ours}
    check("cache models counts as scan_cache_dir", expected == found, f"{expected} {found}")


def check_locks(work, log, filelock, hf):
    """Each waits for the lock that the other holds."""
    cache = work / "locks"
    folder = hf.snapshot_download("org/demo", cache_dir=str(cache))
    blob = os.path.basename(os.path.realpath(f"{folder}/vae/config.json"))
    repo = cache / "models--org--demo"
    os.unlink(repo / "blobs" / blob)
    os.unlink(f"{folder}/vae/config.json")
    lock = filelock.FileLock(cache / ".locks/models--org--demo" / f"{blob}.lock", mode=0o664)
    with lock:
        process = subprocess.Popen([DIFFLET, "download", "org/demo"], stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, text=True,
                                   env={**os.environ, "HF_HUB_CACHE": str(cache)})
        time.sleep(1)
        check("difflet waits for their lock", process.poll() is None)
    error = process.communicate(timeout=60)[1]
    check("and goes on", process.returncode == 0 and "another process" in error, error)
    # The other way round: the file comes slowly, so that theirs finds the lock taken.
    shutil.rmtree(cache)
    (work / "hub/rules.json").write_text(json.dumps(
        [{"match": "hub GET .*/vae/config.json", "rate": 300}]))
    before = log.bodies("vae/config.json")
    process = subprocess.Popen([DIFFLET, "download", "org/demo"], stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL,
                               env={**os.environ, "HF_HUB_CACHE": str(cache)})
    while log.bodies("vae/config.json") == before:
        time.sleep(0.02)
    hf.hf_hub_download("org/demo", "vae/config.json", cache_dir=str(cache))
    process.wait()
    check("theirs waits for difflet's lock", log.bodies("vae/config.json") == before + 1)
    check_both_at_once(work, hf)


def check_both_at_once(work, hf):
    for i in range(10):
        cache = str(work / f"both{i}")
        result = []
        other = threading.Thread(target=lambda c=cache: result.append(
            hf.snapshot_download("org/demo", cache_dir=c, max_workers=2)))
        other.start()
        r = difflet("download", "org/demo", HF_HUB_CACHE=cache)
        other.join()
        if not result or r.stdout.strip() != result[0] or files(result[0]) != files(
                ROOT / "demo") | {"README.md": b"readme\n"}:
            check("both at once", False, r.stderr)
            return
    check("both at once, ten times", True)
    compare_scans(hf, cache)


main()
