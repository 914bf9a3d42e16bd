// Empties queues with sqs-consumer, for the benchmark that runs it. Each line of standard input names a queue
// and says how to consume it; each line of standard output says how that went.
const readline = require("node:readline");
const { SQSClient } = require("@aws-sdk/client-sqs");
const { Consumer } = require("sqs-consumer");

const [endpoint] = process.argv.slice(2);
const client = new SQSClient({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret" },
});

const answered = {}; // requests, by operation
client.middlewareStack.add(
  (next, context) => async (args) => {
    const result = await next(args);
    const operation = context.commandName.replace(/Command$/, "");
    answered[operation] = (answered[operation] ?? 0) + 1;
    return result;
  },
  { step: "initialize" },
);

// consume runs consumers until so many messages are deleted. One consumer makes one request after the other and
// handles the messages of an answer side by side; whoever wants more of that runs more of them.
function consume({ queueUrl, messages, consumers, batch }) {
  for (const operation in answered) delete answered[operation];
  const cpu = process.cpuUsage();
  const began = process.hrtime.bigint();
  let handled = 0;
  let left = messages;
  return new Promise((resolve, reject) => {
    const running = [];
    const deleted = () => {
      if (--left > 0) return;
      const { user, system } = process.cpuUsage(cpu);
      const took = Number(process.hrtime.bigint() - began);
      const answer = { took, cpu: (user + system) * 1000, handled, answered: { ...answered } };
      for (const consumer of running) consumer.stop({ abort: true });
      resolve(answer);
    };
    const failed = (err) => {
      if (left <= 0) return; // the polls that were waiting were told to end
      for (const consumer of running) consumer.stop({ abort: true });
      reject(err);
    };
    const handlers = batch
      ? { handleMessageBatch: async (batch) => { handled += batch.length; return batch; } }
      : { handleMessage: async (message) => { handled++; return message; } };
    for (let i = 0; i < consumers; i++) {
      const consumer = Consumer.create({ queueUrl, sqs: client, batchSize: 10, suppressFifoWarning: true, ...handlers });
      consumer.on("message_processed", deleted);
      consumer.on("error", failed);
      consumer.on("processing_error", failed);
      running.push(consumer);
    }
    for (const consumer of running) consumer.start();
  });
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const answer = await consume(JSON.parse(line)).catch((err) => ({ error: String(err) }));
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
})();
