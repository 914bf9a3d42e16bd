import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.util.VersionInfo;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.SqsClientBuilder;
import software.amazon.awssdk.services.sqs.batchmanager.SqsAsyncBatchManager;
import software.amazon.awssdk.services.sqs.model.*;

/**
 * Leads the operations through the AWS SDK for Java 2, which compares the checksums of bodies and of attributes itself. The
 * calls go through the synchronous client, and the extra ones through the asynchronous one and its batch manager.
 */
public class Matrix {
    static final URI endpoint = URI.create(System.getenv("TENAQ_ENDPOINT"));
    static final String prefix = System.getenv("TENAQ_PREFIX");
    static final SqsClient sqs = connect().build();

    /** What encodings are most easily wrong about. */
    static final String body = "a\r\n\"b\" &quot; & <c/> ]]>\t\uD83D\uDE00 \u2028\\u0041";
    static final byte[] binary = {0, 1, (byte) 254, (byte) 255, 13, 10};

    interface Operation {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        System.out.println("{\"version\": " + quote(VersionInfo.SDK_VERSION) + "}");
        report("create", Matrix::create);
        report("attributes", Matrix::attributes);
        report("fifo", Matrix::fifo);
        report("batch", Matrix::batch);
        report("receive", Matrix::receive);
        report("visibility", Matrix::visibility);
        report("delete", Matrix::delete);
        report("error", Matrix::error);
        report("paging", Matrix::paging);
        report("environment", Matrix::environment);
        report("extra", Matrix::batchManager);
        System.exit(0); // whatever threads the clients have
    }

    static void report(String name, Operation operation) {
        String rest = "\"ok\": true}";
        try {
            operation.run();
        } catch (Exception | AssertionError e) {
            e.printStackTrace();
            rest = "\"ok\": false, \"detail\": " + quote(e.toString()) + "}";
        }
        System.out.println("{\"operation\": " + quote(name) + ", " + rest);
    }

    static String quote(String s) {
        StringBuilder quoted = new StringBuilder("\"");
        s.chars().forEach(c -> quoted.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? String.format("\\u%04x", c) : (char) c));
        return quoted.append('"').toString();
    }

    static void same(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static void holds(String what, boolean ok, Object got) {
        if (!ok) {
            throw new AssertionError(what + ": got " + got);
        }
    }

    /** Checks the class of a refusal, and its code, which the SDK takes from the header that Query clients need. */
    static void refused(Class<? extends SqsException> type, String code, Operation operation) throws Exception {
        try {
            operation.run();
        } catch (SqsException e) {
            same("class of the refusal", e.getClass(), type);
            same("code of the refusal", e.awsErrorDetails().errorCode(), code);
            return;
        }
        throw new AssertionError("got no refusal, want " + code);
    }

    static SqsClientBuilder connect() {
        return SqsClient.builder().endpointOverride(endpoint).httpClientBuilder(UrlConnectionHttpClient.builder());
    }

    static String queue(String name) {
        return sqs.createQueue(r -> r.queueName(prefix + name)).queueUrl();
    }

    static void create() {
        Map<QueueAttributeName, String> attributes = Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "40");
        String url = sqs.createQueue(r -> r.queueName(prefix + "create").attributes(attributes)).queueUrl();
        holds("queue URL", url.startsWith(endpoint + "/") && url.endsWith("/" + prefix + "create"), url);
        same("URL when created again", sqs.createQueue(r -> r.queueName(prefix + "create").attributes(attributes)).queueUrl(), url);
        same("GetQueueUrl", sqs.getQueueUrl(r -> r.queueName(prefix + "create")).queueUrl(), url);
    }

    static void attributes() {
        String url = sqs.createQueue(r -> r.queueName(prefix + "attributes").tags(Map.of("team", "a b", "empty", ""))).queueUrl();
        sqs.setQueueAttributes(r -> r.queueUrl(url).attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "50")));
        Map<QueueAttributeName, String> all =
                sqs.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.ALL)).attributes();
        same("VisibilityTimeout", all.get(QueueAttributeName.VISIBILITY_TIMEOUT), "50");
        same("MessageRetentionPeriod", all.get(QueueAttributeName.MESSAGE_RETENTION_PERIOD), "345600");
        same("attributes that the SDK does not know", all.containsKey(QueueAttributeName.UNKNOWN_TO_SDK_VERSION), false);
        String arn = all.get(QueueAttributeName.QUEUE_ARN);
        holds("QueueArn", arn.startsWith("arn:aws:sqs:us-east-1:") && arn.endsWith(":" + prefix + "attributes"), arn);
        same("one attribute",
                sqs.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.VISIBILITY_TIMEOUT)).attributes(),
                Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "50"));
        sqs.tagQueue(r -> r.queueUrl(url).tags(Map.of("env", "x+y")));
        sqs.untagQueue(r -> r.queueUrl(url).tagKeys("team"));
        same("tags", sqs.listQueueTags(r -> r.queueUrl(url)).tags(), Map.of("empty", "", "env", "x+y"));
    }

    static void fifo() {
        String url = sqs.createQueue(r -> r.queueName(prefix + "fifo.fifo").attributes(Map.of(QueueAttributeName.FIFO_QUEUE, "true")))
                .queueUrl();
        SendMessageResponse first = sendFifo(url, "1", "a");
        SendMessageResponse second = sendFifo(url, "2", "b");
        SendMessageResponse again = sendFifo(url, "other", "a");
        same("MessageId of a duplicate", again.messageId(), first.messageId());
        same("SequenceNumber of a duplicate", again.sequenceNumber(), first.sequenceNumber());
        holds("SequenceNumber of the second", second.sequenceNumber().compareTo(first.sequenceNumber()) > 0, second.sequenceNumber());
        List<Message> messages = receive(url, r -> r.messageSystemAttributeNames(MessageSystemAttributeName.ALL));
        same("order", messages.stream().map(Message::body).toList(), List.of("1", "2"));
        Map<MessageSystemAttributeName, String> system = messages.get(1).attributes();
        same("MessageGroupId", system.get(MessageSystemAttributeName.MESSAGE_GROUP_ID), "g");
        same("MessageDeduplicationId", system.get(MessageSystemAttributeName.MESSAGE_DEDUPLICATION_ID), "b");
        same("SequenceNumber", system.get(MessageSystemAttributeName.SEQUENCE_NUMBER), second.sequenceNumber());
    }

    static SendMessageResponse sendFifo(String url, String text, String id) {
        return sqs.sendMessage(r -> r.queueUrl(url).messageBody(text).messageGroupId("g").messageDeduplicationId(id));
    }

    /** Receives up to ten messages with a long poll, as far as change does not say otherwise. */
    static List<Message> receive(String url, java.util.function.Consumer<ReceiveMessageRequest.Builder> change) {
        return sqs.receiveMessage(ReceiveMessageRequest.builder().queueUrl(url).maxNumberOfMessages(10).waitTimeSeconds(10)
                .applyMutation(change).build()).messages();
    }

    static void batch() {
        String url = queue("batch");
        Map<String, MessageAttributeValue> attributes = Map.of("k", MessageAttributeValue.builder().dataType("String").stringValue("x").build());
        SendMessageBatchResponse sent = sqs.sendMessageBatch(r -> r.queueUrl(url).entries(
                SendMessageBatchRequestEntry.builder().id("a").messageBody("1").build(),
                SendMessageBatchRequestEntry.builder().id("bad").messageBody("a\0b").build(),
                SendMessageBatchRequestEntry.builder().id("c").messageBody("3").messageAttributes(attributes).build()));
        same("sent", sent.successful().stream().map(SendMessageBatchResultEntry::id).toList(), List.of("a", "c"));
        same("not sent", failures(sent.failed()), List.of("bad InvalidMessageContents true"));
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 2 && messages.size() < 2; i++) {
            messages.addAll(receive(url, r -> {}));
        }
        same("received", messages.stream().map(Message::body).sorted().toList(), List.of("1", "3"));
        List<DeleteMessageBatchRequestEntry> entries = new ArrayList<>();
        for (Message m : messages) {
            entries.add(DeleteMessageBatchRequestEntry.builder().id("m" + entries.size()).receiptHandle(m.receiptHandle()).build());
        }
        entries.add(DeleteMessageBatchRequestEntry.builder().id("bad").receiptHandle("nonsense").build());
        DeleteMessageBatchResponse deleted = sqs.deleteMessageBatch(r -> r.queueUrl(url).entries(entries));
        same("deleted", deleted.successful().stream().map(DeleteMessageBatchResultEntry::id).toList(), List.of("m0", "m1"));
        same("not deleted", failures(deleted.failed()), List.of("bad ReceiptHandleIsInvalid true"));
    }

    static List<String> failures(List<BatchResultErrorEntry> failed) {
        return failed.stream().map(e -> e.id() + " " + e.code() + " " + e.senderFault()).toList();
    }

    static void receive() throws Exception {
        String url = queue("receive");
        Instant before = Instant.now();
        same("empty queue", receive(url, r -> r.waitTimeSeconds(1)), List.of());
        Duration took = Duration.between(before, Instant.now());
        holds("wait of a second", took.toMillis() >= 950, took);
        Map<String, MessageAttributeValue> attributes = Map.of(
                "text", MessageAttributeValue.builder().dataType("String").stringValue(body).build(),
                "number", MessageAttributeValue.builder().dataType("Number.int").stringValue("-12").build(),
                "bytes", MessageAttributeValue.builder().dataType("Binary").binaryValue(SdkBytes.fromByteArray(binary)).build());
        String trace = "Root=1-5759e988-bd862e3fe1be46a994272793";
        MessageSystemAttributeValue header = MessageSystemAttributeValue.builder().dataType("String").stringValue(trace).build();
        CompletableFuture<List<Message>> poll = CompletableFuture.supplyAsync(() -> receive(url,
                r -> r.messageAttributeNames("All").messageSystemAttributeNames(MessageSystemAttributeName.ALL)));
        SendMessageResponse sent = sqs.sendMessage(r -> r.queueUrl(url).messageBody(body).messageAttributes(attributes)
                .messageSystemAttributes(Map.of(MessageSystemAttributeNameForSends.AWS_TRACE_HEADER, header)));
        List<Message> messages = poll.get(20, TimeUnit.SECONDS);
        same("messages", messages.size(), 1);
        Message m = messages.get(0);
        same("MessageId", m.messageId(), sent.messageId());
        same("body", m.body(), body);
        same("attributes", m.messageAttributes(), attributes);
        same("MD5 of the attributes", m.md5OfMessageAttributes(), sent.md5OfMessageAttributes());
        Map<MessageSystemAttributeName, String> system = m.attributes();
        same("ApproximateReceiveCount", system.get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "1");
        same("AWSTraceHeader", system.get(MessageSystemAttributeName.AWS_TRACE_HEADER), trace);
        holds("SenderId", system.get(MessageSystemAttributeName.SENDER_ID) != null, system);
        long sentAt = Long.parseLong(system.get(MessageSystemAttributeName.SENT_TIMESTAMP));
        holds("SentTimestamp", Math.abs(sentAt - System.currentTimeMillis()) < 3_600_000, system);
    }

    static void visibility() {
        String url = queue("visibility");
        sqs.sendMessage(r -> r.queueUrl(url).messageBody("again"));
        Message first = receive(url, r -> r.visibilityTimeout(600)).get(0);
        same("hidden", receive(url, r -> r.waitTimeSeconds(0)), List.of());
        sqs.changeMessageVisibility(r -> r.queueUrl(url).receiptHandle(first.receiptHandle()).visibilityTimeout(0));
        List<Message> second = receive(url, r -> r.messageSystemAttributeNames(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
        same("messages", second.size(), 1);
        same("MessageId", second.get(0).messageId(), first.messageId());
        same("system attributes", second.get(0).attributes(), Map.of(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT, "2"));
        holds("a handle of its own", !second.get(0).receiptHandle().equals(first.receiptHandle()), first.receiptHandle());
    }

    static void delete() throws Exception {
        String url = queue("delete");
        sqs.sendMessage(r -> r.queueUrl(url).messageBody("gone"));
        String handle = receive(url, r -> r.visibilityTimeout(1)).get(0).receiptHandle();
        sqs.deleteMessage(r -> r.queueUrl(url).receiptHandle(handle));
        same("deleted message", receive(url, r -> r.waitTimeSeconds(2)), List.of());
        sqs.deleteQueue(r -> r.queueUrl(url));
        refused(QueueDoesNotExistException.class, "AWS.SimpleQueueService.NonExistentQueue",
                () -> sqs.getQueueUrl(r -> r.queueName(prefix + "delete")));
    }

    static void error() throws Exception {
        String url = queue("error");
        String missing = "AWS.SimpleQueueService.NonExistentQueue";
        refused(QueueDoesNotExistException.class, missing, () -> sqs.getQueueUrl(r -> r.queueName(prefix + "nowhere")));
        refused(QueueDoesNotExistException.class, missing, () -> sqs.sendMessage(r -> r.queueUrl(url + "-nowhere").messageBody("x")));
        refused(QueueNameExistsException.class, "QueueAlreadyExists",
                () -> sqs.createQueue(r -> r.queueName(prefix + "error").attributes(Map.of(QueueAttributeName.DELAY_SECONDS, "7"))));
        refused(ReceiptHandleIsInvalidException.class, "ReceiptHandleIsInvalid",
                () -> sqs.deleteMessage(r -> r.queueUrl(url).receiptHandle("nonsense")));
        refused(InvalidMessageContentsException.class, "InvalidMessageContents",
                () -> sqs.sendMessage(r -> r.queueUrl(url).messageBody("\0")));
        signedBy(System.getenv("TENAQ_WRONG_KEY_ID"), System.getenv("TENAQ_WRONG_SECRET"), "SignatureDoesNotMatch");
        signedBy("TQNOBODY", System.getenv("AWS_SECRET_ACCESS_KEY"), "InvalidClientTokenId");
    }

    static void signedBy(String id, String secret, String code) throws Exception {
        StaticCredentialsProvider pair = StaticCredentialsProvider.create(AwsBasicCredentials.create(id, secret));
        try (SqsClient client = connect().credentialsProvider(pair).build()) {
            refused(SqsException.class, code, client::listQueues);
        }
    }

    static void paging() {
        List<String> urls = IntStream.range(10, 35).mapToObj(i -> queue("paging-" + i)).toList();
        List<Integer> sizes = new ArrayList<>();
        List<String> found = new ArrayList<>();
        for (ListQueuesResponse page : sqs.listQueuesPaginator(r -> r.queueNamePrefix(prefix + "paging-").maxResults(10))) {
            sizes.add(page.queueUrls().size());
            found.addAll(page.queueUrls());
        }
        same("pages", sizes, List.of(10, 10, 5));
        same("queues", found.stream().sorted().toList(), urls);
    }

    static void environment() {
        String url = queue("environment");
        try (SqsClient client = SqsClient.builder().httpClientBuilder(UrlConnectionHttpClient.builder()).build()) {
            same("queues", client.listQueues(r -> r.queueNamePrefix(prefix + "environment")).queueUrls(), List.of(url));
        }
    }

    /** The batch manager collects calls of its callers into batches, and gives each its own entry of the answer. */
    static void batchManager() throws Exception {
        String url = queue("manager");
        try (SqsAsyncClient client = SqsAsyncClient.builder().endpointOverride(endpoint).build();
                SqsAsyncBatchManager manager = client.batchManager()) {
            List<String> bodies = IntStream.range(10, 22).mapToObj(i -> i + " " + body).toList();
            List<CompletableFuture<SendMessageResponse>> sends = new ArrayList<>();
            for (String text : bodies) {
                sends.add(manager.sendMessage(r -> r.queueUrl(url).messageBody(text)));
            }
            CompletableFuture<SendMessageResponse> bad = manager.sendMessage(r -> r.queueUrl(url).messageBody("a\0b"));
            List<String> ids = new ArrayList<>();
            for (CompletableFuture<SendMessageResponse> send : sends) {
                ids.add(send.get(20, TimeUnit.SECONDS).messageId());
            }
            same("MessageIds", ids.stream().distinct().count(), 12L);
            refused(SqsException.class, "InvalidMessageContents", () -> join(bad));

            // It answers from what it has fetched, with nothing when a request of its own is still under way.
            List<Message> messages = new ArrayList<>();
            Instant deadline = Instant.now().plusSeconds(20);
            while (messages.size() < bodies.size() && Instant.now().isBefore(deadline)) {
                messages.addAll(join(manager.receiveMessage(r -> r.queueUrl(url))).messages());
            }
            messages.sort(Comparator.comparing(Message::body));
            same("bodies", messages.stream().map(Message::body).toList(), bodies);
            same("MessageIds received", messages.stream().map(Message::messageId).toList(), ids);

            Message first = messages.get(0);
            join(manager.changeMessageVisibility(r -> r.queueUrl(url).receiptHandle(first.receiptHandle()).visibilityTimeout(600)));
            for (CompletableFuture<DeleteMessageResponse> deleted : messages.stream()
                    .map(m -> manager.deleteMessage(r -> r.queueUrl(url).receiptHandle(m.receiptHandle()))).toList()) {
                join(deleted);
            }
        }
        QueueAttributeName[] counters = {
            QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES, QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE,
        };
        Map<QueueAttributeName, String> left = sqs.getQueueAttributes(r -> r.queueUrl(url).attributeNames(counters)).attributes();
        same("left", Arrays.stream(counters).map(left::get).toList(), List.of("0", "0"));
    }

    /** Waits for a call, and throws what it ended with as a synchronous one would. */
    static <T> T join(CompletableFuture<T> call) throws Exception {
        try {
            return call.orTimeout(20, TimeUnit.SECONDS).join();
        } catch (CompletionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }
}
