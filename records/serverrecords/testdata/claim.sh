#!/bin/sh
# A claim with curl alone: two workers want the same work, the first is lost, and the second fences
# it. The argument is the address of a server that asks for no signatures. With keys, add
# --aws-sigv4 aws:amz:us-east-1:sqs --user "$TENAQ_ACCESS_KEY_ID:$TENAQ_SECRET_ACCESS_KEY" to curl.
set -eu
claims=$1/v1/claims

# post PATH JSON makes a request. It prints the status in the last line of the answer.
post() {
	curl --silent --show-error --write-out '\n%{http_code}' --header 'Content-Type: application/json' \
		--data "$2" "$claims/$1"
}

# wants STATUS ANSWER prints the answer, and ends the script if the status is another one.
wants() {
	case $2 in
	*"
$1") printf '%s\n' "$2" ;;
	*)
		printf 'got, instead of %s: %s\n' "$1" "$2" >&2
		exit 1
		;;
	esac
}

# fence reads the fence of a claim from an answer.
fence() { sed -n 's/.*"fence":\([0-9]*\).*/\1/p'; }

# The first worker claims the work for ten seconds, and sends a heartbeat.
first=$(wants 200 "$(post order-17/acquire '{"owner": "first", "leaseMs": 10000}')" | fence)
wants 200 "$(post order-17/renew "{\"fence\": $first}")" >/dev/null
echo "the first worker has the claim"

# The second is refused while the first is alive.
wants 409 "$(post order-17/acquire '{"owner": "second", "leaseMs": 60000}')" | grep -q '"code":"Busy"'
echo "the second worker has to wait"

# The first falls silent. The second waits for the rest of its lease, takes over, and knows from whom.
while :; do
	answer=$(post order-17/acquire '{"owner": "second", "leaseMs": 60000}')
	rest=$(printf '%s' "$answer" | sed -n 's/.*"retryInMs":\([0-9]*\).*/\1/p')
	[ -n "$rest" ] || break
	sleep $((rest / 1000 + 1))
done
second=$(printf '%s\n' "$answer" | sed 's/"takenOver".*//' | fence)
printf '%s\n' "$answer" | grep -q '"takenOver":.*"owner":"first"'
[ "$second" -gt "$first" ]
echo "the second worker has taken over"

# Whatever the first still wants to write is refused: its fence is smaller.
wants 409 "$(post order-17/renew "{\"fence\": $first}")" | grep -q '"code":"Lost"'
wants 409 "$(post order-17/complete "{\"fence\": $first, \"result\": \"charged twice\"}")" | grep -q '"code":"Lost"'
echo "the first worker is fenced"

# The second completes the work. Anybody who comes later learns the result.
wants 200 "$(post order-17/complete "{\"fence\": $second, \"result\": \"charge ch_1\"}")" >/dev/null
wants 409 "$(post order-17/acquire '{"owner": "third"}')" | grep -q '"result":"charge ch_1"'
echo "the work is done: charge ch_1"
