package pages

// pages has every page with commands.
var pages = []page{
	{name: "README.md", before: "make() { :; }\nexport TENAQ_ADMIN_LISTEN=${TENAQ_LISTEN%:*}:9325",
		swap: []string{"serve &", "serve"},
		at: []step{
			{text: "cluster local", not: "docs/cluster.md has the same commands"},
			{text: "cluster status", not: "docs/cluster.md has the same command"},
			{text: "bench send", not: "it measures for minutes; make bench-short does"},
			{text: "go mod edit", not: "it needs the sources beside the module"},
		},
		want: []string{"attempt 1 at", "no such address", "Nothing was sent; add --run", "no address"}},

	{name: "docs/first-steps.md", before: "tenaq serve\necho https://hooks.example.com/t >slack-url",
		swap: []string{"/run/secrets/", "", "sleep 90", "sleep 4"},
		want: []string{"jobs-dlq/dead-letters", "is acknowledged"}},

	{name: "docs/tasks.md", before: `
tenaq serve
tenaq queue create orders --dead-letter orders-dlq --tag tenaq:history=7d
tenaq queue create orders-parking
tenaq queue create orders-test
dead() {
	for i in 1 2 3 4; do tenaq send orders "timeout $i: {\"v\": 1}" --attribute kind=test; done
	tenaq pipe orders --no-claims --until-empty -- sh -c 'echo timeout; exit 65'
}
dead`,
		at: []step{
			{text: "--order newest", before: "dead"},
			{text: "task watch", before: "dead\nseq 300 | tenaq send orders-dlq --lines\nTASK=$(tenaq dead redrive orders-dlq --to orders --rate 1 --yes --background --json | jq -r .id)"},
			{text: "dead edit", before: "dead\nID=$(tenaq peek orders-dlq --json | jq -r '.messages[0].messageId')\necho '{}' >fixed.json"},
			{text: "replay orders", before: "tenaq receive orders --delete"},
		},
		swap: []string{"tenaq task watch orders-dlq:17", "timeout 1 tenaq task watch orders-dlq:17 || [ $? = 124 ]",
			"orders-dlq:17", "$TASK", "0b6b4c9e-7d55-4b0e-9d3f-5f1f6f0a8a51", "$ID"}},

	{name: "docs/access.md", want: []string{`"partner"`}},

	{name: "docs/alarms.md", before: `
tenaq serve
tenaq queue create orders --dead-letter orders-dlq
tenaq send orders-dlq hello
echo https://hooks.example.com/t >slack-url
sleep 4`,
		swap: []string{"/run/secrets/", "", "/usr/local/bin/page", "/bin/true", "tenaq alarms --exit-code ", "tenaq alarms --exit-code || [ $? = 4 ] "},
		want: []string{"orders-dlq/dead-letters", "we are moving the database"}},

	{name: "docs/alarms/*.md", before: `
export TENAQ_OUTBOX=sqlite:shop.db
tenaq serve
chronyc() { :; }
tenaq queue create jobs.fifo --dead-letter jobs-dlq.fifo --tag tenaq:history=7d
tenaq send jobs.fifo hello --group a --dedup-id a
tenaq outbox init --create
seq 200000 >large
tenaq outbox enqueue --to jobs --file large
tenaq outbox relay --once || :
ID=$(tenaq outbox parked list --json | jq -r '.rows[0].id')`,
		at: []step{{text: "cluster status", not: "docs/cluster.md has the same command"}},
		swap: []string{"redrive status QUEUE", "redrive status jobs-dlq.fifo", "redrive plan QUEUE", "redrive plan jobs-dlq.fifo",
			"QUEUE", "jobs.fifo", "parked show ID", "parked show $ID"}},

	{name: "docs/backup.md", buckets: true, before: "tenaq serve\nmkdir backups\ntenaq queue create orders\ntenaq send orders hello",
		at: []step{
			{text: "s3://", before: `
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1
curl -sS -X PUT $BUCKETS/backups`},
			{text: "queue-2.example.com", before: "stop; rm -r data; tenaq serve"},
			{text: "tenaq-2026-11-21", before: "mv backups/tenaq-20*.tar backups/tenaq-2026-11-21.tar; stop; rm -r data"},
			{text: "salvage", before: "stop"},
		},
		swap: []string{"/var/lib/tenaq", "data", " /backups", " backups", "queue-2.example.com", "127.0.0.1",
			"https://minio.example.com", "$BUCKETS"}},

	{name: "docs/claims.md", before: "tenaq serve"},

	{name: "docs/cluster.md",
		at: []step{
			{text: "PROCESS", before: `
unset TENAQ_ENDPOINT_URL
FIRST=$(sed -n 's/^  node-1 .*SQS on \(http[^,]*\).*/\1/p' $log)
PROCESS=$(sed -n 's/^  node-2 .*process //p' $log)`},
			{text: "kubectl", not: "it needs Kubernetes; test/deploy checks the chart"},
			{text: "--cluster-identity", before: `
stop
unset ${!AWS_*}
for n in 2 3; do tenaq cluster ca node authority node-$n; done
export TENAQ_LISTEN=10.0.0.1:9324 TENAQ_ENDPOINT_URL=http://10.0.0.1:9324 TENAQ_ACCESS_KEY_ID=TQMAIN TENAQ_SECRET_ACCESS_KEY=0123456789abcdef
peers=10.0.0.1:9326,10.0.0.2:9326,10.0.0.3:9326
for n in 2 3; do
	TENAQ_LISTEN=127.0.0.1:933$n command tenaq serve --data-dir data-$n --cluster-peers $peers --cluster-identity node-$n \
		--cluster-listen $(echo $peers | cut -d , -f $n) >node-$n.log 2>&1 &
done`},
			{text: "cluster convert", before: `
until tenaq cluster status; do sleep 0.1; done
kill $(jobs -p) || :
wait
rm -r data*
export TENAQ_CLUSTER_TOKEN=0123456789abcdef0123456789abcdef
tenaq serve --data-dir data`},
			{text: "cluster join", before: `
for n in 2 3; do
	TENAQ_LISTEN=127.0.0.1:933$n command tenaq serve --data-dir data-$n --cluster-peers 10.0.0.1:9326 \
		--cluster-listen $(echo $peers | cut -d , -f $n) >node-$n.log 2>&1 &
done
until [ "$(cat node-2.log node-3.log | grep -c "not in the cluster yet")" = 2 ]; do sleep 0.1; done`},
			{text: "systemctl restart", before: "systemctl() { :; }"},
		},
		swap: []string{"tenaq cluster local", "tenaq cluster local --port $((20000 + $$ % 300 * 40))", "http://127.0.0.1:9324", "$FIRST",
			"PROCESS  ", "$PROCESS  ", "/var/lib/tenaq", "data", "/etc/tenaq/", "", "--listen :9324", "--listen 10.0.0.1:9324",
			"--credentials keys.json", "", "--cluster-listen :9326", "--cluster-listen 10.0.0.1:9326",
			"before.tar  ", "before.tar; stop  ", " ...\n", "\n"}},

	{name: "docs/console.md", before: "ssh() { :; }", at: []step{
		{text: "ssh", not: "it needs another machine"},
		{text: "oauth2-proxy --", not: "it needs an account at Google"}}},

	{name: "docs/extensions.md", before: `
tenaq serve
eval "$(tenaq env)"
tenaq queue create orders
tenaq queue create jobs
tenaq queue create orders.fifo --dead-letter orders-dlq.fifo`,
		swap: []string{"2027-02-01T08:00:00Z", "'$(date -u -d +30days +%FT%TZ)'"}},

	{name: "docs/install.md", at: []step{
		{text: "sha256sum --check --ignore-missing tenaq_0.2.0_checksums.txt", not: "it needs a release; make release-check builds one"},
		{text: "apt install", not: "it needs root; release/package tests the package"},
		{text: "systemctl restart", not: "it needs root and systemd"},
		{text: "dnf install", not: "it needs root; release/package tests the package"},
		{text: "tar xzf", not: "it needs a release; make release-check builds one"},
		{text: "skopeo", not: "it needs Docker and a registry"},
		{text: "kubectl", not: "it needs Kubernetes; test/deploy checks the chart"},
		{text: "nomad job run", not: "it needs Nomad; test/deploy checks the jobs"},
	}},

	{name: "docs/migrate.md", before: `
cat >elasticmq.conf <<'END'
include classpath("application.conf")
queues {
  orders { defaultVisibilityTimeout = 10 seconds, deadLettersQueue { name = "orders-dlq", maxReceiveCount = 3 } }
  orders-dlq { }
}
END
printf 'queues:\n  - name: orders\n' >queues.yaml`,
		at: []step{
			{text: "services:", not: "it needs Docker; test/deploy has compose files"},
			{text: "apply queues.yaml", before: "tenaq serve"},
			{text: "bridge", before: `
TENAQ_LISTEN=10.0.0.2:9324 beside serve --data-dir amazon
tenaq queue create orders --endpoint-url http://10.0.0.2:9324
tenaq send orders hello --endpoint-url http://10.0.0.2:9324`},
		},
		swap: []string{"--aws --region eu-west-1", "--endpoint-url http://10.0.0.2:9324 --until-empty"}},

	{name: "docs/offload.md", before: `
tenaq serve
tenaq queue create accounts
seq 100000 >accounts.csv
printf '#!/bin/sh\nwc -l\n' >import; chmod +x import`,
		swap: []string{"/mnt/", "$PWD/", "'dir:", "\"dir:", "accounts'", "accounts\"", "pipe accounts --", "pipe accounts --until-empty --"},
		want: []string{"100000"}},

	{name: "docs/operations/README.md", swap: []string{"/var/lib/", "$PWD/"}},

	{name: "docs/operations/health.md", before: "tenaq serve", want: []string{"sends          accepted"}},

	{name: "docs/operations/inspect.md", before: `
tenaq serve
eval "$(tenaq env)"
for queue in orders jobs; do tenaq queue create $queue --dead-letter $queue-dlq; done
tenaq send orders 'order 17' --once --key order-17
tenaq send jobs 'job 1'
QUEUE_URL=$TENAQ_ENDPOINT_URL/000000000000/jobs`,
		at: []step{
			{text: "AQEB", before: "tenaq send cards 'card 8'\nHANDLE=$(tenaq receive cards --json | jq -r .receiptHandle)"},
			{text: "5f0c1a52", before: "ID=$(tenaq peek jobs --json | jq -r '.messages[0].lineageId')"},
		},
		swap: []string{"AQEB...", "'$HANDLE'", "orders-dlq'\n", "orders-dlq' | sed '/^event: tick/q' || :\n", "5f0c1a52-8f1e-4c6b-9d0a-3b1f2c7d9e10", "$ID"},
		want: []string{"no customer #", `"how": "poison"`, "event: tick", "TenaqLineageId"}},

	{name: "docs/outbox.md", database: true, before: `
tenaq serve
export TENAQ_OUTBOX=$DATABASE
tenaq outbox init
psql -q "$DATABASE" -c 'CREATE TABLE jobs (job_id text PRIMARY KEY, video_id text, status text)'`,
		at: []step{{text: "outbox replay", before: "tenaq queue create transcode\ntenaq outbox relay --once"}}},

	{name: "docs/pipe.md", before: `
tenaq serve
tenaq queue create reports
tenaq send reports weekly --delay 2s
printf '#!/bin/sh\ncat\n' >send-report; chmod +x send-report`,
		swap: []string{"sleep 60", "sleep 2"}, want: []string{"weekly"}},

	{name: "docs/performance.md", at: []step{
		{text: "tenaq bench", not: "it measures for minutes; make bench-short does"},
		{text: "go test", not: "it measures for minutes; make bench-short does"},
	}},

	{name: "docs/producer.md", before: `
tenaq serve
tenaq queue create invoices
tenaq queue create downloads.fifo
tenaq send downloads.fifo '{}' --once --key accounts-2026-02-28 --group a
echo '{}' >accounts.json`, swap: []string{"--list\n", "--list || [ $? = 5 ]\n"}},

	{name: "docs/proofs.md", at: []step{
		{text: "make", not: "make test is what runs this"},
	}},

	{name: "docs/testing.md"},

	{name: "docs/redrive.md", before: `
tenaq serve
tenaq queue create orders --dead-letter orders-dlq
for i in 1 2 3; do tenaq send orders "order $i"; done
tenaq pipe orders --until-empty -- sh -c 'echo no such customer; exit 65'
tenaq redrive run orders-dlq --parking orders-parking --create-parking --once
KIND=$(tenaq redrive parked list orders-parking --json | jq -r '.messages[0].kind')
tenaq send orders "order 4"
tenaq pipe orders --until-empty -- sh -c 'echo no such article; exit 65'
tenaq redrive run orders-dlq --parking orders-parking --once
ID=$(tenaq redrive parked list orders-parking --json | jq -r '.messages[3].messageId')`,
		swap: []string{"2p7d1xk", "$KIND", "MESSAGE", "$ID"}},

	{name: "docs/scenario-*.md", database: true, before: `
tenaq serve
tenaq queue create orders --dead-letter orders-dlq
tenaq queue create orders-parking
tenaq queue create data-download-queue.fifo --dead-letter data-download-dlq.fifo
tenaq send data-download-queue.fifo '{}' --once --key accounts-2026-02-28 --group accounts
psql -q "$DATABASE" -c 'CREATE TABLE jobs (job_id text PRIMARY KEY, status text, generation int, fence int)'`,
		at: []step{{text: "bin/tenaq demo", not: "make demo plays the scenarios, and test/demo what --break breaks"}},
		swap: []string{"trace KEY", "trace accounts-2026-02-28", "UPDATE jobs", "PREPARE fenced AS UPDATE jobs",
			"--list ", "--list || [ $? = 5 ] "}},
}

// programs complete the blocks of Go, which are parts of functions. Each block has one.
var programs = map[string]string{
	"charge(ctx": `package p

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/worker"
)

type Order struct{ Cents int }

func f(client *sqs.Client, url string, ledger *claims.Ledger, orderID func(*worker.Message) (string, error),
	charge func(context.Context, string, int) error) (*worker.Worker, error) {
	BLOCK
	return w, err
}`,
	"pgclaims.InTx": `package p

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
)

func f(held context.Context, pool *pgxpool.Pool, claim *claims.Claim, receipt string) (err error) {
	BLOCK
	return err
}`,
	"serverrecords.New": `package p

import (
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records/serverrecords"
)

func f(client *sqs.Client) (*claims.Ledger, error) {
	BLOCK
	return ledger, err
}`,
	"pginbox.Handler": `package p

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/worker"
	"tenaq/worker/pginbox"
)

func f(client *sqs.Client, url string, ledger *claims.Ledger, pool *pgxpool.Pool) worker.Config {
	return BLOCK
}`,
	"testcontainers": "", // its module is none of ours
}
