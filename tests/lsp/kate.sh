# kate.sh - a real Kate: F9 takes the safe form, Ctrl+S saves; both until the file has it.
# dbus-run-session -- xvfb-run sh tests/lsp/kate.sh   CERIUM_FILE, CERIUM_TALK: what the server says
kate -n "$CERIUM_FILE" -l 5 -c 17 &
kate=$!
for _ in $(seq 600); do
    grep -q '"code"' "$CERIUM_TALK" 2>/dev/null && break
    kill -0 "$kate" || exit 1
    sleep 0.1
done
for _ in $(seq 300); do
    window=$(xdotool search --onlyvisible --name point.py 2>/dev/null | head -n 1)
    [ "$window" ] && xdotool windowfocus "$window" key F9 key ctrl+s
    sleep 0.3
    grep -q sha256 "$CERIUM_FILE" && break
done
kill "$kate"
wait "$kate"
