# The agent of matrix_loop.py as a shell script: curl, one request a process.
#   bash curl_matrix.sh chat|responses|messages plain|streamed
# Its messages lie in files under $SCRATCH; what JSON there is to read or write, curl_matrix.py does.
set -eu
here=$(dirname "$0")
dialect=$1 form=$2
case $dialect in
    chat) url=$OPENAI_BASE_URL/chat/completions ;;
    responses) url=$OPENAI_BASE_URL/responses ;;
    messages) url=$ANTHROPIC_BASE_URL/v1/messages ;;
esac
side() { python3 -S "$here/curl_matrix.py" "$dialect" "$form" "$@"; }

mkdir "$SCRATCH/results"
while :; do
    side ask > "$SCRATCH/body"
    curl -sS --no-buffer --fail-with-body -H 'Content-Type: application/json' -H "Authorization: Bearer $OPENAI_API_KEY" \
        -H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01' --data-binary "@$SCRATCH/body" "$url" \
        > "$SCRATCH/answer"
    side take < "$SCRATCH/answer" > "$SCRATCH/calls"
    if [ ! -s "$SCRATCH/calls" ]; then
        cat "$SCRATCH/said"
        exit 0
    fi
    while IFS=$(printf '\t') read -r id command; do
        bash -c "$command" > "$SCRATCH/results/$id" 2>&1 < /dev/null || true
        [ -s "$SCRATCH/results/$id" ] || echo "(nothing)" > "$SCRATCH/results/$id"
    done < "$SCRATCH/calls"
done
