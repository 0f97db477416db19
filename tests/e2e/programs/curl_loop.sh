# The same agent as a shell script: curl, one request a process, piped into what waits for its answer.
set -eu
messages='[{"role": "user", "content": "Put the workspace in order."}]'
tools='[{"type": "function", "function": {"name": "shell", "description": "Run a command.", "parameters": {"type": "object"}}}]'

pick() { # what python makes of the JSON on its input
    python3 -c "import json, sys; value = json.load(sys.stdin); print($1)"
}

while :; do
    printf '{"model": "any", "messages": %s, "tools": %s}' "$messages" "$tools" > "$SCRATCH/body"
    curl -sS --fail-with-body -H 'Content-Type: application/json' -H "Authorization: Bearer $OPENAI_API_KEY" \
        --data-binary "@$SCRATCH/body" "$OPENAI_BASE_URL/chat/completions" \
        | pick 'json.dumps(value["choices"][0]["message"])' > "$SCRATCH/message"
    message=$(cat "$SCRATCH/message")
    messages="${messages%]}, $message]"
    command=$(pick '"".join(json.loads(call["function"]["arguments"])["command"] for call in value.get("tool_calls") or ())' < "$SCRATCH/message")
    if [ -z "$command" ]; then
        pick 'value["content"]' < "$SCRATCH/message"
        exit 0
    fi
    id=$(pick 'value["tool_calls"][0]["id"]' < "$SCRATCH/message")
    bash -c "$command" > "$SCRATCH/result" 2>&1 < /dev/null || true
    [ -s "$SCRATCH/result" ] || echo "(nothing)" > "$SCRATCH/result"
    result=$(python3 -c "import json; print(json.dumps(open('$SCRATCH/result').read()))")
    messages="${messages%]}, {\"role\": \"tool\", \"tool_call_id\": \"$id\", \"content\": $result}]"
done
