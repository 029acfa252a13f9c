"""Holds a server to the OpenAPI document: `openapi.py DOCUMENT ADDRESS`.

The document must be one; and each `x-try` of its operations is sent, and what comes back must have a status that is
there, and the kind and shape that the document says of it. An `x-try` is a query string, `~name=value` for a part of the
path in front of one, or `!` and a JSON body; `$BEGIN` and `$NOW` are instants. Prints how many answers fit.
"""

import json
import sys
import time
import urllib.error
import urllib.request

import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

document = yaml.safe_load(open(sys.argv[1], encoding="utf-8"))
address = sys.argv[2]
validate(document)
registry = Registry().with_resource("urn:api", Resource(document, DRAFT202012))


def resolved(node):
    """What a reference inside the document points to."""
    while "$ref" in node:
        place = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        node = place
    return node


def absolute(node):
    """The schema with its references resolved from the document's root."""
    if isinstance(node, dict):
        return {
            key: "urn:api" + value if key == "$ref" else absolute(value) for key, value in node.items()
        }
    return [absolute(item) for item in node] if isinstance(node, list) else node


def ask(method, path, attempt):
    """Status, kind and body of the answer."""
    body, headers = None, {}
    if attempt.startswith("!"):
        body, attempt = attempt[1:].encode(), ""
        headers["content-type"] = "application/json"
    if attempt.startswith("~"):
        part, _, attempt = attempt[1:].partition("?")
        name, _, value = part.partition("=")
        path, attempt = path.replace("{%s}" % name, value), "?" + attempt if attempt else ""
    now = int(time.time())
    attempt = attempt.replace("$BEGIN", str(now - 300)).replace("$NOW", str(now))
    if method == "post" and body is None:
        body, attempt = attempt.removeprefix("?").encode(), ""
        headers["content-type"] = "application/x-www-form-urlencoded"
    request = urllib.request.Request(f"http://{address}{path}{attempt}", body, headers, method=method.upper())
    try:
        answer = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    return str(answer.status), answer.headers.get("content-type", "").partition(";")[0], answer.read()


fitting = 0
for path, item in document["paths"].items():
    for method, operation in item.items():
        for attempt in operation.get("x-try", []):
            what = f"{method.upper()} {path} {attempt}"
            status, kind, body = ask(method, path, attempt)
            if status not in operation["responses"]:
                sys.exit(f"{what}: status {status} is not in the document: {body[:500]}")
            content = resolved(operation["responses"][status]).get("content", {})
            if body and kind not in content:
                sys.exit(f"{what}: {status} with {kind!r} is not in the document")
            if kind == "application/json":
                schema = absolute(content[kind]["schema"])
                errors = list(Draft202012Validator(schema, registry=registry).iter_errors(json.loads(body)))
                if errors:
                    sys.exit(f"{what}: {errors[0].message[:500]} at {errors[0].json_path}")
            fitting += 1
print(f"{fitting} answers fit")
