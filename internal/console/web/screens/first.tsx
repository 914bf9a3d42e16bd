// A server without queues: how to begin. One dialog creates a queue and sends a message to it.

import { h } from "preact";
import { useRef, useState } from "preact/hooks";
import { ask, attempt, type Change, type Said } from "../act";
import { cmd, same, v } from "../commands";
import { Empty } from "../parts";
import { can, go, link } from "../state";

export function FirstSteps() {
  const creates = can("sqs:CreateQueue"), sends = creates && can("sqs:SendMessage");
  const breaks = sends && can("sqs:ReceiveMessage", "sqs:DeleteMessage", "tenaq:Nack", "tenaq:PeekMessages");
  return <Empty>
    <h2>There is no queue yet</h2>
    {creates && <p class="acts">
      {sends && <button type="button" class="primary" onClick={() => void ask((m) => <First m={m} />)}>Send a message</button>}
      <button type="button" class={sends ? "" : "primary"} onClick={() => void ask((m) => <m.Create />)}>Create a queue</button>
      {breaks && <button type="button" onClick={() => void attempt(same("example", "Break a worker", "tenaq", "queue", "example"), example, { text: "A worker failed. It gave up these messages." })}>Break a worker (demo)</button>}</p>}
    <p>{creates ? "Or create one in a terminal" : "Create one in a terminal"}, send a message, and look at it here:</p>
    <pre>tenaq queue create orders{"\n"}tenaq send orders '{'{"id": 1}'}'{"\n"}tenaq receive orders</pre>
    <p>Any AWS SDK can use this server too: <code>eval "$(tenaq env)"</code> points the SDKs of a shell at it.</p>
  </Empty>;
}

// example has the server play a worker that fails, and shows why it failed. [V1-26]
const example: Change = async ({ post }) => {
  const { deadLetters } = await post<{ deadLetters: string }>("/example", {});
  go(link(["q", deadLetters, "dead"]));
};

// First creates a queue, sends a message to it and shows the message. After a send that is refused the
// queue is there, so another try only sends.
function First({ m: { Act, Body, Input } }: { m: typeof import("../change") }) {
  const [queue, setQueue] = useState("orders"), [body, setBody] = useState('{"id": 1}'), [group, setGroup] = useState("customer-7");
  const made = useRef(""), fifo = queue.endsWith(".fifo");
  const send: Change<Said> = async ({ act }) => {
    if (made.current !== queue) await act("CreateQueue", { QueueName: queue, ...(fifo ? { Attributes: { FifoQueue: "true", ContentBasedDeduplication: "true" } } : {}) });
    made.current = queue;
    const out = await act<{ MessageId: string }>("SendMessage", { QueueUrl: queue, MessageBody: body, ...(fifo ? { MessageGroupId: group } : {}) })
      .catch((e: Error) => Promise.reject(new Error(`The queue ${queue} is there now, but the message was not sent: ${e.message}`)));
    go(link(["m", out.MessageId]));
    return { text: `Sent to ${queue}.`, link: [link(["q", queue]), "Show the queue"] };
  };
  return <Act title="Send a message" label="Send" ready={queue !== "" && body !== "" && (!fifo || group !== "")} act={send}
    prior={[cmd("Create the queue", "tenaq", "queue", "create", v(queue || "orders"), ...(fifo ? ["--attribute", "ContentBasedDeduplication=true"] : []))]}
    same={same("send-first", "Send the message", "tenaq", "send", v(queue || "orders"), v(body), ...(fifo ? ["--group", v(group)] : []))}>
    <div class="grid"><Input name="Queue" value={queue} set={setQueue} required />{fifo && <Input name="Message group" value={group} set={setGroup} required />}</div>
    <p class="dim">If there is no such queue, it is created.{fifo && " Messages of a group arrive in order. A message with the same body within five minutes is dropped as a duplicate."}</p>
    <Body value={body} set={setBody} />
  </Act>;
}
