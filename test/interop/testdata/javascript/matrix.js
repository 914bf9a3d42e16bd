// Leads the operations through the AWS SDK for JavaScript, v3 or v2 as the argument says. Both take the same parameters
// and return the same members, so only how they are called, how they page and what their errors are differs.
const { createHash } = require("node:crypto");
const { report, equal, holds, refused } = require("./report.js");

const { TENAQ_ENDPOINT: endpoint, TENAQ_PREFIX: prefix, AWS_REGION: region } = process.env;

// Each connects with the keys of the environment, or with others. An error has the class of the client for the refusal
// with this name, where it has one, and its code.
const generations = {
  v3() {
    const sdk = require("@aws-sdk/client-sqs");
    const connect = (credentials, address = { endpoint }) => {
      const client = new sdk.SQSClient({ ...address, region, credentials });
      return {
        call: (operation, input) => client.send(new sdk[operation + "Command"](input)),
        async pages(input, size) {
          const pages = [];
          for await (const page of sdk.paginateListQueues({ client, pageSize: size }, input)) pages.push(page.QueueUrls);
          return pages;
        },
      };
    };
    return {
      version: require("@aws-sdk/client-sqs/package.json").version,
      connect,
      code: (err, name) => {
        if (sdk[name]) holds("class of the error", err instanceof sdk[name], err.constructor.name);
        return err.name;
      },
      missing: "QueueDoesNotExist",
      exists: "QueueNameExists",
    };
  },
  v2() {
    const sdk = require("aws-sdk/lib/core");
    const SQS = require("aws-sdk/clients/sqs");
    const connect = (credentials) => {
      const client = new SQS({ endpoint, region, credentials });
      return {
        call: (operation, input) => client[operation[0].toLowerCase() + operation.slice(1)](input).promise(),
        pages: (input, size) =>
          new Promise((resolve, reject) => {
            const pages = [];
            client.listQueues({ ...input, MaxResults: size }).eachPage((err, page) => {
              if (err) return reject(err);
              if (page === null) return resolve(pages);
              pages.push(page.QueueUrls);
              return true;
            });
          }),
      };
    };
    return {
      version: sdk.VERSION,
      connect,
      code: (err) => err.code,
      missing: "AWS.SimpleQueueService.NonExistentQueue",
      exists: "QueueAlreadyExists",
    };
  },
};

const { version, connect, code, missing, exists } = generations[process.argv[2]]();
const client = connect();
const call = (operation, input) => client.call(operation, input);

// body has what encodings are most easily wrong about. The client compares its checksum.
const body = 'a\r\n"b" &quot; & <c/> ]]>\t\u{1F600} \u2028\\u0041';
const binary = Buffer.from([0, 1, 254, 255, 13, 10]);

const create = async (name, Attributes) => (await call("CreateQueue", { QueueName: prefix + name, Attributes })).QueueUrl;
const send = (QueueUrl, MessageBody, more) => call("SendMessage", { QueueUrl, MessageBody, ...more });
const receive = async (QueueUrl, more) =>
  (await call("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 10, MaxNumberOfMessages: 10, ...more })).Messages ?? [];
const attributesOf = async (QueueUrl, ...AttributeNames) =>
  (await call("GetQueueAttributes", { QueueUrl, AttributeNames })).Attributes;

const md5 = (bytes) => createHash("md5").update(bytes).digest("hex");

// md5OfAttributes is the checksum that SQS documents, which neither client compares.
function md5OfAttributes(attributes) {
  const counted = (value) => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return [length, bytes];
  };
  return md5(
    Buffer.concat(
      Object.keys(attributes).sort().flatMap((name) => {
        const { DataType, StringValue, BinaryValue } = attributes[name];
        return [...counted(name), ...counted(DataType), Buffer.from([BinaryValue ? 2 : 1]), ...counted(BinaryValue ?? StringValue)];
      }),
    ),
  );
}

const operations = {
  async create() {
    const url = await create("create", { VisibilityTimeout: "40" });
    holds("queue URL", url.startsWith(endpoint + "/") && url.endsWith("/" + prefix + "create"), url);
    equal("URL when created again", await create("create", { VisibilityTimeout: "40" }), url);
    equal("GetQueueUrl", (await call("GetQueueUrl", { QueueName: prefix + "create" })).QueueUrl, url);
  },

  async attributes() {
    const dead = (await attributesOf(await create("attributes-dead"), "QueueArn")).QueueArn;
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: dead, maxReceiveCount: 3 });
    const { QueueUrl } = await call("CreateQueue", { QueueName: prefix + "attributes", tags: { team: "a b", empty: "" } });
    await call("SetQueueAttributes", { QueueUrl, Attributes: { VisibilityTimeout: "50", RedrivePolicy } });
    const all = await attributesOf(QueueUrl, "All");
    equal("VisibilityTimeout", all.VisibilityTimeout, "50");
    equal("ApproximateNumberOfMessages", all.ApproximateNumberOfMessages, "0");
    equal("RedrivePolicy", JSON.parse(all.RedrivePolicy), JSON.parse(RedrivePolicy));
    holds("QueueArn", all.QueueArn.startsWith(`arn:aws:sqs:${region}:`) && all.QueueArn.endsWith(":" + prefix + "attributes"), all.QueueArn);
    equal("one attribute", await attributesOf(QueueUrl, "VisibilityTimeout"), { VisibilityTimeout: "50" });
    await call("TagQueue", { QueueUrl, Tags: { env: "x+y" } });
    await call("UntagQueue", { QueueUrl, TagKeys: ["team"] });
    const { Tags } = await call("ListQueueTags", { QueueUrl });
    equal("tags", { ...Tags }, { empty: "", env: "x+y" });
  },

  async fifo() {
    const url = await create("fifo.fifo", { FifoQueue: "true" });
    const put = (text, group, id) => send(url, text, { MessageGroupId: group, MessageDeduplicationId: id });
    const first = await put("1", "g", "a");
    await put("2", "g", "b");
    const again = await put("other", "g", "a");
    equal("MessageId of a duplicate", again.MessageId, first.MessageId);
    equal("SequenceNumber of a duplicate", again.SequenceNumber, first.SequenceNumber);
    const last = await put("3", "g", "c");
    holds("SequenceNumber of the last", BigInt(last.SequenceNumber) > BigInt(first.SequenceNumber), last.SequenceNumber);
    const messages = await receive(url, { AttributeNames: ["All"] });
    equal("order", messages.map((m) => m.Body), ["1", "2", "3"]);
    const { MessageGroupId, MessageDeduplicationId, SequenceNumber } = messages[2].Attributes;
    equal("system attributes", [MessageGroupId, MessageDeduplicationId, SequenceNumber], ["g", "c", last.SequenceNumber]);
  },

  async batch() {
    const QueueUrl = await create("batch");
    const sent = await call("SendMessageBatch", {
      QueueUrl,
      Entries: [
        { Id: "a", MessageBody: "1" },
        { Id: "bad", MessageBody: "a\u0000b" },
        { Id: "c", MessageBody: "3", MessageAttributes: { k: { DataType: "String", StringValue: "x" } } },
      ],
    });
    equal("sent", sent.Successful.map((e) => e.Id), ["a", "c"]);
    equal("not sent", sent.Failed.map((e) => [e.Id, e.Code, e.SenderFault]), [["bad", "InvalidMessageContents", true]]);
    const messages = [];
    for (let i = 0; i < 2 && messages.length < 2; i++) messages.push(...(await receive(QueueUrl)));
    equal("received", messages.map((m) => m.Body).sort(), ["1", "3"]);
    const Entries = [...messages.map((m, i) => ({ Id: "m" + i, ReceiptHandle: m.ReceiptHandle })), { Id: "bad", ReceiptHandle: "nonsense" }];
    const changed = await call("ChangeMessageVisibilityBatch", { QueueUrl, Entries: Entries.map((e) => ({ ...e, VisibilityTimeout: 60 })) });
    equal("changed", changed.Successful.map((e) => e.Id), ["m0", "m1"]);
    const deleted = await call("DeleteMessageBatch", { QueueUrl, Entries });
    equal("deleted", deleted.Successful.map((e) => e.Id), ["m0", "m1"]);
    equal("not deleted", deleted.Failed.map((e) => [e.Id, e.Code, e.SenderFault]), [["bad", "ReceiptHandleIsInvalid", true]]);
  },

  async receive() {
    const url = await create("receive");
    const before = Date.now();
    equal("empty queue", await receive(url, { WaitTimeSeconds: 1 }), []);
    holds("wait of a second", Date.now() - before >= 950, Date.now() - before);
    const MessageAttributes = {
      text: { DataType: "String", StringValue: body },
      number: { DataType: "Number.int", StringValue: "-12" },
      bytes: { DataType: "Binary", BinaryValue: binary },
    };
    const trace = "Root=1-5759e988-bd862e3fe1be46a994272793";
    const MessageSystemAttributes = { AWSTraceHeader: { DataType: "String", StringValue: trace } };
    const poll = receive(url, { MessageAttributeNames: ["All"], AttributeNames: ["All"] });
    const [sent, [m, ...rest]] = await Promise.all([send(url, body, { MessageAttributes, MessageSystemAttributes }), poll]);
    equal("more messages", rest, []);
    equal("MessageId", m.MessageId, sent.MessageId);
    equal("body", m.Body, body);
    equal("MD5 of the body", [sent.MD5OfMessageBody, m.MD5OfBody], [md5(body), md5(body)]);
    const sum = md5OfAttributes(MessageAttributes);
    equal("MD5 of the attributes", [sent.MD5OfMessageAttributes, m.MD5OfMessageAttributes], [sum, sum]);
    equal("MD5 of the system attributes", sent.MD5OfMessageSystemAttributes, md5OfAttributes(MessageSystemAttributes));
    equal("names of attributes", Object.keys(m.MessageAttributes).sort(), ["bytes", "number", "text"]);
    equal("text", m.MessageAttributes.text.StringValue, body);
    equal("number", [m.MessageAttributes.number.DataType, m.MessageAttributes.number.StringValue], ["Number.int", "-12"]);
    equal("bytes", Buffer.from(m.MessageAttributes.bytes.BinaryValue).toString("hex"), binary.toString("hex"));
    equal("ApproximateReceiveCount", m.Attributes.ApproximateReceiveCount, "1");
    equal("AWSTraceHeader", m.Attributes.AWSTraceHeader, trace);
    holds("SenderId", m.Attributes.SenderId, m.Attributes);
    holds("SentTimestamp", Math.abs(Number(m.Attributes.SentTimestamp) - Date.now()) < 3_600_000, m.Attributes);
    await send(url, "2", { MessageAttributes });
    const [one] = await receive(url, { MessageAttributeNames: ["num.*"], AttributeNames: ["SentTimestamp"] });
    equal("chosen attributes", [Object.keys(one.MessageAttributes), Object.keys(one.Attributes)], [["number"], ["SentTimestamp"]]);
  },

  async visibility() {
    const QueueUrl = await create("visibility");
    await send(QueueUrl, "again");
    const [first] = await receive(QueueUrl, { VisibilityTimeout: 600 });
    equal("hidden", await receive(QueueUrl, { WaitTimeSeconds: 0 }), []);
    await call("ChangeMessageVisibility", { QueueUrl, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0 });
    const [second] = await receive(QueueUrl, { AttributeNames: ["ApproximateReceiveCount"] });
    equal("MessageId", second?.MessageId, first.MessageId);
    equal("ApproximateReceiveCount", second.Attributes.ApproximateReceiveCount, "2");
    holds("a handle of its own", second.ReceiptHandle !== first.ReceiptHandle, second.ReceiptHandle);
  },

  async delete() {
    const QueueUrl = await create("delete");
    await send(QueueUrl, "gone");
    const [m] = await receive(QueueUrl, { VisibilityTimeout: 1 });
    await call("DeleteMessage", { QueueUrl, ReceiptHandle: m.ReceiptHandle });
    equal("deleted message", await receive(QueueUrl, { WaitTimeSeconds: 2 }), []);
    await call("DeleteQueue", { QueueUrl });
    const err = await refused("deleted queue", call("GetQueueUrl", { QueueName: prefix + "delete" }));
    equal("deleted queue", code(err, "QueueDoesNotExist"), missing);
  },

  async error() {
    const QueueUrl = await create("error");
    const refusal = async (name, promise) => code(await refused(name, promise), name);
    equal("missing queue", await refusal("QueueDoesNotExist", call("GetQueueUrl", { QueueName: prefix + "nowhere" })), missing);
    equal("send to it", await refusal("QueueDoesNotExist", send(QueueUrl + "-nowhere", "x")), missing);
    equal("other attributes", await refusal("QueueNameExists", create("error", { DelaySeconds: "7" })), exists);
    const bad = { QueueUrl, ReceiptHandle: "nonsense" };
    equal("receipt handle", await refusal("ReceiptHandleIsInvalid", call("DeleteMessage", bad)), "ReceiptHandleIsInvalid");
    equal("characters", await refusal("InvalidMessageContents", send(QueueUrl, "\u0000")), "InvalidMessageContents");
    const { TENAQ_WRONG_KEY_ID, TENAQ_WRONG_SECRET, AWS_SECRET_ACCESS_KEY } = process.env;
    const as = (accessKeyId, secretAccessKey) => connect({ accessKeyId, secretAccessKey }).call("ListQueues", {});
    equal("wrong secret", code(await refused("wrong secret", as(TENAQ_WRONG_KEY_ID, TENAQ_WRONG_SECRET))), "SignatureDoesNotMatch");
    equal("unknown key", code(await refused("unknown key", as("TQNOBODY", AWS_SECRET_ACCESS_KEY))), "InvalidClientTokenId");
  },

  async paging() {
    const urls = [];
    for (let i = 10; i < 35; i++) urls.push(await create(`paging-${i}`));
    const pages = await client.pages({ QueueNamePrefix: prefix + "paging-" }, 10);
    equal("pages", pages.map((p) => p.length), [10, 10, 5]);
    equal("queues", pages.flat().sort(), urls);
  },
};

// v2 does not read the address from the environment.
if (process.argv[2] === "v3") {
  operations.environment = async () => {
    const url = await create("environment");
    const pages = await connect(undefined, {}).pages({ QueueNamePrefix: prefix + "environment" }, 10);
    equal("queues", pages.flat(), [url]);
  };
}

report(version, operations);
