// Consumes with sqs-consumer, which polls, runs handlers, and deletes the messages that they return. Queues are created
// and filled with the AWS SDK that it stands on.
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
// What goes wrong otherwise is thrown.
function consume(queueUrl, event, count, options) {
  const consumer = Consumer.create({ queueUrl, sqs: sdk, batchSize: 10, waitTimeSeconds: 10, ...options });
  return new Promise((resolve, reject) => {
    const seen = [];
    const stop = (settle, value) => {
      settle(value);
      consumer.stop({ abort: true });
    };
    consumer.on(event, (value) => seen.push(value) === count && stop(resolve, seen));
    for (const failure of ["error", "processing_error", "timeout_error"]) {
      consumer.on(failure, (err) => failure !== event && seen.length < count && stop(reject, err));
    }
    consumer.start();
  });
}

const keep = { handleMessage: async () => undefined };
const acknowledge = { handleMessage: async (message) => message };

report(require("sqs-consumer/package.json").version, {
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
    const [first] = await Promise.all([consume(url, "processing_error", 1, { ...options, terminateVisibilityTimeout: 0 })]);
    equal("the error of the handler", first.message, "Unexpected message handler failure: not yet");
    await consume(url, "message_processed", 1, options);
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

  // Of a batch only what the handler returns is deleted; what a handler fails at stays in flight until its timeout is over,
  // which a heartbeat puts off.
  async extra() {
    const batch = await filled("batch", "1", "keep", "2");
    const handled = [];
    const handleMessageBatch = async (messages) => {
      handled.push(...messages.map((m) => m.Body));
      return messages.filter((m) => m.Body !== "keep");
    };
    await consume(batch, "message_processed", 2, { handleMessageBatch, visibilityTimeout: 600 });
    while (handled.length < 3) await consume(batch, "message_received", 1, { handleMessageBatch, visibilityTimeout: 600 });
    equal("handled", handled.sort(), ["1", "2", "keep"]);
    equal("after the batch: visible, in flight", await left(batch), [0, 1]);

    const failing = await filled("failing", "bad");
    const fail = { handleMessage: async () => { throw new Error("bad"); } };
    await consume(failing, "processing_error", 1, { ...fail, visibilityTimeout: 600 });
    equal("after a failure: visible, in flight", await left(failing), [0, 1]);

    const slow = await filled("slow", "slow");
    let runs = 0;
    const handleMessage = async (message) => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 3500));
      return message;
    };
    await consume(slow, "message_processed", 1, { handleMessage, visibilityTimeout: 2, heartbeatInterval: 1 });
    equal("after a heartbeat: runs, visible, in flight", [runs, ...(await left(slow))], [1, 0, 0]);
  },
});
