// Consumes with sqs-consumer, which polls, runs handlers, and deletes the messages that they return. Queues are created
// and filled with the AWS SDK that it stands on.
const path = require("node:path");
const { SQS, SQSClient } = require("@aws-sdk/client-sqs");
const { Consumer } = require("sqs-consumer");
const { report, equal } = require("./report.js");

const { TENAQ_ENDPOINT: endpoint, TENAQ_PREFIX: prefix, TENAQ_WRONG_KEY_ID, TENAQ_WRONG_SECRET } = process.env;
const sdk = new SQS({ endpoint });

const body = 'a\r\n"b" &quot; & <c/> ]]>\t\u{1F600} \u2028\\u0041';

// filled returns the URL of a queue that has messages with these bodies.
async function filled(name, ...bodies) {
  const { QueueUrl } = await sdk.createQueue({ QueueName: prefix + name });
  for (const MessageBody of bodies) {
    await sdk.sendMessage({ QueueUrl, MessageBody, MessageAttributes: { k: { DataType: "String", StringValue: body } } });
  }
  return QueueUrl;
}

// left returns how many messages a queue has that are visible, and how many in flight.
async function left(QueueUrl) {
  const AttributeNames = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
  const { Attributes } = await sdk.getQueueAttributes({ QueueUrl, AttributeNames });
  return AttributeNames.map((name) => Number(Attributes[name]));
}

// consume runs a consumer until as many events of that name have happened, and returns the first argument of each.
// It throws what goes wrong, but for the failures that are expected. At its end a consumer cuts short what it has under
// way.
function consume(queueUrl, event, count, options, expected = event) {
  const consumer = Consumer.create({ queueUrl, sqs: sdk, batchSize: 10, waitTimeSeconds: 10, ...options });
  return new Promise((resolve, reject) => {
    const seen = [];
    const stop = (settle, value) => {
      settle(value);
      consumer.stop({ abort: true });
    };
    consumer.on(event, (value) => seen.push(value) === count && stop(resolve, seen));
    for (const failure of ["error", "processing_error", "timeout_error"]) {
      consumer.on(failure, (err) => failure !== expected && seen.length < count && stop(reject, err));
    }
    consumer.start();
  });
}

const version = require(path.join(require.resolve("sqs-consumer"), "../../../package.json")).version;
const keep = { handleMessage: async () => undefined };
const acknowledge = { handleMessage: async (message) => message };

report(version, {
  async receive() {
    const url = await filled("receive", body);
    const options = { ...keep, messageAttributeNames: ["All"], messageSystemAttributeNames: ["All"] };
    const [m] = await consume(url, "message_received", 1, options);
    equal("body", m.Body, body);
    equal("attribute", m.MessageAttributes.k.StringValue, body);
    equal("ApproximateReceiveCount", m.Attributes.ApproximateReceiveCount, "1");
  },

  // A handler that fails gives its message back at once where the consumer is told so.
  async visibility() {
    const url = await filled("visibility", "again");
    const counts = [];
    const handleMessage = async (message) => {
      counts.push(message.Attributes.ApproximateReceiveCount);
      if (counts.length === 1) throw new Error("not yet");
      return message;
    };
    const options = { handleMessage, terminateVisibilityTimeout: true, messageSystemAttributeNames: ["ApproximateReceiveCount"] };
    await consume(url, "message_processed", 1, options, "processing_error");
    equal("ApproximateReceiveCount", counts, ["1", "2"]);
  },

  async delete() {
    const url = await filled("delete", "1", "2", "3");
    await consume(url, "message_processed", 3, acknowledge);
    equal("visible, in flight", await left(url), [0, 0]);
  },

  async error() {
    const url = await filled("error");
    const codes = async (queueUrl, options) => {
      const [err] = await consume(queueUrl, "error", 1, { ...keep, ...options });
      return [err.name, err.code, err.statusCode];
    };
    equal("missing queue", await codes(url + "-nowhere"), ["SQSError", "QueueDoesNotExist", 400]);
    const credentials = { accessKeyId: TENAQ_WRONG_KEY_ID, secretAccessKey: TENAQ_WRONG_SECRET };
    equal("wrong secret", await codes(url, { sqs: new SQSClient({ endpoint, credentials }) }), ["SQSError", "SignatureDoesNotMatch", 403]);
  },

  async extra() {
    await Promise.all([batches(), failures(), heartbeats()]);
  },
});

// batches: of a batch only what the handler returns is deleted.
async function batches() {
  const url = await filled("batches", "1", "keep", "2");
  const handled = [];
  const handleMessageBatch = async (messages) => {
    handled.push(...messages.map((m) => m.Body));
    return messages.filter((m) => m.Body !== "keep");
  };
  const options = { handleMessageBatch, visibilityTimeout: 600 };
  await consume(url, "message_processed", 2, options);
  if (handled.length < 3) await consume(url, "message_received", 1, options);
  equal("handled", handled.sort(), ["1", "2", "keep"]);
  equal("after the batch: visible, in flight", await left(url), [0, 1]);
}

// failures: what a handler fails at stays in flight.
async function failures() {
  const url = await filled("failures", "bad");
  const handleMessage = async () => {
    throw new Error("bad");
  };
  await consume(url, "processing_error", 1, { handleMessage, visibilityTimeout: 600 });
  equal("after the failure: visible, in flight", await left(url), [0, 1]);
}

// heartbeats: a message stays in flight for as long as it is handled.
async function heartbeats() {
  const url = await filled("heartbeats", "slow");
  let seen;
  const handleMessage = async (message) => {
    await new Promise((resolve) => setTimeout(resolve, 4500));
    seen = await left(url);
    return message;
  };
  await consume(url, "message_processed", 1, { handleMessage, visibilityTimeout: 4, heartbeatInterval: 1 });
  equal("behind the first timeout: visible, in flight", seen, [0, 1]);
  equal("in the end: visible, in flight", await left(url), [0, 0]);
}
