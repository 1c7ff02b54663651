#!/usr/bin/env bash
# Writes the parts of docs/ that the program makes: the reference, the list of reasons, the picture of the router's graph,
# what the worked example of flowstat prints and draws.
# Tests fail when they are out of date. Rendering the picture needs Graphviz (apt-get install graphviz).
set -euo pipefail
cd "$(dirname "$0")/.."

WEIR_DOCS=write cargo test --quiet -p weir --test docs -- the_reference the_picture the_list
WEIR_DOCS=write cargo test --quiet -p weir --test flowstat_example
if command -v dot >/dev/null; then
    dot -Tsvg docs/router.dot >docs/router.svg
else
    echo "docs/router.svg is not rendered: Graphviz is missing (apt-get install graphviz)" >&2
fi
git status --short docs
