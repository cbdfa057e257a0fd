#!/usr/bin/env python3
"""A hub of models on this machine, for tests: the part of the protocol that downloads use.

    fake_hub.py ROOT    ROOT/repos/ORG/NAME/... are the repositories; serves until it is killed

ROOT/ports.json gets the ports of the hub and of its CDN when both listen. Large files (from 1 kB on)
are redirected to the CDN under a signed address. ROOT/rules.json, if there, is read for every
request: a list of {"match": regular expression on "hub|cdn METHOD PATH", "times": how often it holds,
and what happens then}:
  "status": N, "headers": {}   that answer instead
  "cut": N                     the connection ends after N bytes of the body
  "short": N                   the last N bytes are missing, and the length says so
  "flip": N                    the byte at N is another one
  "whole": true                a range that is asked for is ignored
  "rate": N                    bytes a second
  "location": URL              redirected there instead
ROOT/log.jsonl gets a line for each request. A repository with a file .gated wants "Bearer good" for its
files, one with .private for everything; one with .xet says that its large files have a xet hash.
"""
import hashlib
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

ROOT = Path(sys.argv[1])
REPOS = ROOT / "repos"
LARGE = 1000
PAGE = 3  # entries of a page of the tree
PIECE = 1 << 20
LOCK = threading.Lock()
USED = {}
HASHES = {}


def commit_of(repo):
    return hashlib.sha1(repo.encode()).hexdigest()


def files_of(repo):
    folder = REPOS / repo
    found = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return [p.relative_to(folder).as_posix() for p in found if not p.name.startswith(".")]


def digests(path):
    """(git SHA-1, SHA-256) of a file, remembered while it does not change."""
    info = path.stat()
    key = (str(path), info.st_size, info.st_mtime_ns)
    if key not in HASHES:
        git, sha = hashlib.sha1(b"blob %d\0" % info.st_size), hashlib.sha256()
        with path.open("rb") as f:
            while piece := f.read(PIECE):
                git.update(piece)
                sha.update(piece)
        HASHES[key] = git.hexdigest(), sha.hexdigest()
    return HASHES[key]


def rule_for(request):
    try:
        rules = json.loads((ROOT / "rules.json").read_text())
    except FileNotFoundError:
        return {}
    with LOCK:
        for rule in rules:
            key = json.dumps(rule)
            if re.search(rule["match"], request) and USED.get(key, 0) < rule.get("times", 1):
                USED[key] = USED.get(key, 0) + 1
                return rule
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.serve()

    def do_GET(self):
        self.serve()

    def serve(self):
        kind = self.server.kind
        self.rule = rule_for(f"{kind} {self.command} {self.path}")
        token = self.headers.get("Authorization", "")
        with LOCK, (ROOT / "log.jsonl").open("a") as log:
            log.write(json.dumps({"server": kind, "method": self.command, "path": self.path,
                                  "token": token, "range": self.headers.get("Range", "")}) + "\n")
        if kind == "cdn" and token:
            self.answer(400, {"X-Error-Message": "the token came to the CDN"})
        elif "status" in self.rule:
            self.answer(self.rule["status"], self.rule.get("headers", {}))
        elif "location" in self.rule:
            self.answer(302, {"Location": self.rule["location"], **self.rule.get("headers", {})})
        elif kind == "cdn":
            self.serve_cdn()
        else:
            self.serve_hub(token)

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve_cdn(self):
        url = urlsplit(self.path)
        if parse_qs(url.query).get("signature") != ["valid"]:
            self.answer(403, {})
            return
        self.send_file(REPOS / unquote(url.path.lstrip("/")), {})

    def serve_hub(self, token):
        url = urlsplit(self.path)
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", url.path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        repo = (api or file)[1] if api or file else ""
        if not repo or not (REPOS / repo).is_dir() or (
                (REPOS / repo / ".private").exists() and token != "Bearer good"):
            self.answer(404 if token else 401, {"X-Error-Code": "RepoNotFound"})
            return
        revision = unquote((api[3] if api else file[2]) or "main")
        if revision not in ("main", "v1", "refs/pr/1", commit_of(repo)):
            self.answer(404, {"X-Error-Code": "RevisionNotFound",
                              "X-Error-Message": f"Invalid rev id: {revision}"})
        elif file:
            self.serve_file(repo, unquote(file[3]), token)
        elif api[2] == "tree":
            self.serve_tree(repo, revision, url)
        else:
            self.answer(200, {"Content-Type": "application/json"}, json.dumps({
                "id": repo, "modelId": repo, "sha": commit_of(repo), "tags": [],
                "siblings": [{"rfilename": f} for f in files_of(repo)]}).encode())

    def serve_tree(self, repo, revision, url):
        start = int(parse_qs(url.query).get("cursor", ["0"])[0])
        names, page = files_of(repo), []
        for name in names[start:start + PAGE]:
            path = REPOS / repo / name
            git, sha = digests(path)
            size = path.stat().st_size
            entry = {"type": "file", "oid": git, "size": size, "path": name}
            if size >= LARGE:
                entry["lfs"] = {"oid": sha, "size": size, "pointerSize": 130}
                if (REPOS / repo / ".xet").exists():
                    entry["xetHash"] = sha
            page.append(entry)
        page.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": f"folder{start}"})
        headers = {"Content-Type": "application/json"}
        if start + PAGE < len(names):
            base = f"http://{self.headers['Host']}{url.path}"
            query = f"recursive=true&expand=false&cursor={start + PAGE}"
            headers["Link"] = f'<{base}?{query}>; rel="next"'
        self.answer(200, headers, json.dumps(page).encode())

    def serve_file(self, repo, name, token):
        path = REPOS / repo / name
        headers = {"X-Repo-Commit": commit_of(repo)}
        if (REPOS / repo / ".gated").exists() and token != "Bearer good":
            self.answer(403 if token else 401, {"X-Error-Code": "GatedRepo"})
        elif not path.is_file() or name.startswith("."):
            self.answer(404, {"X-Error-Code": "EntryNotFound", **headers})
        elif path.stat().st_size < LARGE:
            self.send_file(path, {"ETag": f'"{digests(path)[0]}"', **headers})
        else:
            headers["X-Linked-Etag"] = f'"{digests(path)[1]}"'
            headers["X-Linked-Size"] = str(path.stat().st_size)
            headers["ETag"] = '"of-the-redirect"'
            if (REPOS / repo / ".xet").exists():
                headers["X-Xet-Hash"] = digests(path)[1]
            port = self.server.cdn_port
            headers["Location"] = (
                f"http://localhost:{port}/{quote(f'{repo}/{name}')}?signature=valid")
            self.answer(302, headers)

    def send_file(self, path, headers):
        size = path.stat().st_size
        end = size - self.rule.get("short", 0)
        first = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not self.rule.get("whole"):
            first = int(asked[1])
            if first >= end:
                self.answer(416, {"Content-Range": f"bytes */{end}"})
                return
        self.send_response(206 if first else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(path, first, end)

    def send_body(self, path, first, end):
        stop = min(end, first + self.rule.get("cut", end))
        self.wfile.flush()
        with path.open("rb") as f:
            if "flip" in self.rule or "rate" in self.rule:
                self.send_slowly(f, first, stop)
            else:
                while first < stop:
                    first += os.sendfile(self.connection.fileno(), f.fileno(), first, stop - first)
        if stop < end:
            self.close_connection = True

    def send_slowly(self, f, first, stop):
        f.seek(first)
        body = bytearray(f.read(stop - first))
        if "flip" in self.rule and first <= self.rule["flip"] < stop:
            body[self.rule["flip"] - first] ^= 1
        rate = self.rule.get("rate", 1 << 40)
        step = max(1, min(len(body), rate // 20))
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            if "rate" in self.rule:
                time.sleep(step / rate)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass  # a client that went away


def main():
    hub, cdn = (Server(("127.0.0.1", 0), Handler) for _ in range(2))
    hub.kind, cdn.kind = "hub", "cdn"
    hub.cdn_port = cdn.server_address[1]
    threading.Thread(target=cdn.serve_forever, daemon=True).start()
    ports = {"hub": hub.server_address[1], "cdn": cdn.server_address[1]}
    (ROOT / "ports.tmp").write_text(json.dumps(ports))
    os.replace(ROOT / "ports.tmp", ROOT / "ports.json")
    hub.serve_forever()


main()
