// The answers of /v1. A test writes this file: go test ./internal/api/v1 -run TestConsoleTypes -rewrite

export interface AccessKey {
  account: string;
  allow: string[];
  expired: boolean;
  expires?: string;
  id: string;
  lastUse?: string;
  user: string;
}

export interface Ack {
  at: string;
  by?: string;
  note?: string;
}

export interface Action {
  about: string;
  action: string;
  at: string;
  by: string;
  number: number;
  proxyUser?: string;
  text?: string;
}

export interface ActionList {
  actions: Action[];
  next?: number;
}

export interface AlarmList {
  actions: string[];
  alarms: ShownAlarm[];
  silences: Silence[];
}

export interface AsideList {
  more: boolean;
  orders: AsideOrder[];
  outbox: string;
  reported: string | null;
  rows: AsideRow[];
  takes: string[];
}

export interface AsideOrder {
  by: string;
  do: "release" | "discard";
  id: string;
  ordered: string;
  parkedAt: string;
}

export interface AsideOrders {
  orders: AsideOrder[];
}

export interface AsideRow {
  attempts: number;
  id: string;
  key?: string;
  parkedAt: string;
  queue: string;
  reason: string;
  type?: string;
}

export interface Attempt {
  class?: string;
  ended: string | null;
  how: string;
  receive: number;
  received: string | null;
  text?: string;
}

export interface Attribute {
  base64?: string;
  type: string;
  value?: string;
}

export interface BackupStatus {
  bytes?: number;
  running: boolean;
  taken?: string;
}

export interface BreakerSpan {
  from: string | null;
  state: "CLOSED" | "OPEN" | "HALF_OPEN";
  to: string | null;
}

export interface Bye {
  reason: string;
  retryMs: number;
}

export interface Caller {
  account: string;
  arn: string;
  expires?: string;
  key?: string;
  proxyUser?: string;
  session: boolean;
  token: boolean;
  user?: string;
}

export interface Change {
  alarm: string;
  at: string;
  queue?: string;
  reason: string;
  state: string;
  was: string;
}

export interface ChangeList {
  changes: Change[];
}

export interface Claim {
  ageMs: number | null;
  attempts: number;
  fence?: number;
  generation: number;
  key: string;
  leaseMs?: number;
  leaseOver?: boolean;
  ledger: string;
  messageId?: string;
  owner: string;
  reason?: string;
  remainingMs?: number;
  result?: string;
  resultBytes?: number;
  state: "held" | "completed" | "failed" | "exhausted" | "released" | "parked" | "unreadable";
}

export interface ClaimList {
  claims: ClaimView[];
  looked: number;
  next?: string;
}

export interface ClaimStore {
  name: string;
  readsAll: boolean;
  records: string;
}

export interface ClaimView {
  ageMs: number | null;
  attempts: number;
  fence?: number;
  key: string;
  leaseMs?: number;
  memo?: string;
  memoBase64?: string;
  messageId?: string;
  owner: string;
  reason?: string;
  remainingMs?: number;
  result?: string;
  resultBase64?: string;
  state: "held" | "completed" | "failed" | "exhausted" | "released" | "parked" | "unreadable";
  takenOver?: ClaimView;
  undo?: number;
}

export interface CommitStatus {
  count: number;
  p50Ms?: number;
  p99Ms?: number;
  since: string;
}

export interface Counted {
  deleted: number;
  received: number;
  sent: number;
}

export interface DeadLetters {
  maxReceiveCount?: number;
  messages?: number;
  queue: string;
}

export interface Depth {
  delayed: number;
  inFlight: number;
  oldestAgeMs: number;
  visible: number;
}

export interface Description {
  allowed: string[];
  api: string;
  caller: Caller;
  features: string[];
  now: string;
  server: string;
  version: string;
}

export interface DiskStatus {
  at?: string;
  freeBytes?: number;
  near: boolean;
  reserveBytes: number;
  totalBytes?: number;
}

export interface Event {
  after?: string;
  at: string | null;
  attempts?: number;
  before?: string;
  class?: string;
  clock?: "client" | "version";
  count?: number;
  fence?: number;
  from?: string;
  generation: number;
  key?: string;
  ledger?: string;
  lineageId?: string;
  messageId?: string;
  newMessageId?: string;
  ofMessageId?: string;
  owner?: string;
  queue?: string;
  receive?: number;
  redrives?: number;
  text?: string;
  to?: string;
  verdict?: "retry" | "poison" | "release" | "returned";
  what: "registered" | "send_failed" | "sent" | "received" | "returned" | "dead_lettered" | "arrived" | "moved" | "parked" | "replaced" | "replayed" | "removed" | "deleted" | "expired" | "claimed" | "completed" | "failed" | "exhausted" | "released" | "awaiting_decision" | "lease_over";
}

export interface ExtensionView {
  says: string;
  tag: string;
  value: string;
}

export interface Filter {
  attributes?: { [name: string]: string };
  before?: string;
  from?: string;
  group?: string;
  id?: string;
  key?: string;
  kind?: string;
  outcome?: "deleted" | "expired" | "dead_lettered" | "moved" | "parked" | "replaced" | "removed";
  reason?: string;
  receivesMax?: number;
  receivesMin?: number;
  source?: string;
  text?: string;
}

export interface Group {
  group: string;
  heldBy?: Holder[];
  lineageId?: string;
  messageId?: string;
  messages: number;
  receiveCount: number;
  sent: string | null;
  state: "visible" | "in_flight" | "delayed" | "held";
  visibleAt: string | null;
  waitMs: number;
}

export interface GroupList {
  groups: Group[];
  next?: string;
}

export interface Handling {
  late?: number;
  messages: number;
  p50?: Took;
  p95?: Took;
  p99?: Took;
  since: string;
  timeoutS?: number;
  watched: boolean;
}

export interface HeldGroup {
  groupId: string;
  queue: string;
}

export interface Hello {
  instance: string;
  periodMs: number;
}

export interface Holder {
  lineageId: string;
  messageId: string;
  queue: string;
}

export interface KeptList {
  bytes: number;
  oldest?: string;
  outcomes: number;
}

export interface KeyList {
  keys: AccessKey[];
  open: boolean;
  since: string;
}

export interface Kind {
  count: number;
  first: string | null;
  holding?: number;
  kind: string;
  last: string | null;
  note?: KindNote;
  reason: string;
  receives: Receives;
  sample: KindSample;
}

export interface KindNote {
  at: string;
  by: string;
  text: string;
}

export interface KindSample {
  lineageId: string;
  messageId: string;
  reason?: string;
}

export interface LiveQueue {
  deleted: number;
  depth?: Depth;
  received: number;
  sent: number;
}

export interface Member {
  address: string;
  applied: number;
  clock: number;
  commit: number;
  freeBytes: number;
  hash: string;
  id: string;
  lag: number;
  role: string;
  trouble?: string;
  version: string;
  voter: boolean;
}

export interface MemoryStatus {
  goroutines: number;
  limitBytes?: number;
  residentBytes?: number;
}

export interface Message {
  ageMs: number;
  attempts?: number;
  attributes?: { [name: string]: Attribute };
  body?: string;
  bodyCut?: boolean;
  deadLetterSource?: string;
  deduplicationId?: string;
  fence: number;
  firstReceive?: string;
  firstSent: string | null;
  generation: number;
  groupId?: string;
  holds?: HeldGroup;
  key?: string;
  kind?: string;
  lastReceive?: string;
  lineageId: string;
  mark?: string;
  messageId: string;
  place: string;
  queue?: string;
  reason?: string;
  receiveCount: number;
  redrives?: number;
  sent: string | null;
  sequenceNumber?: string;
  size: number;
  state: string;
  story?: Attempt[];
  visibleAt: string | null;
}

export interface MessageFate {
  receiveCount?: number;
  state: string;
}

export interface MessageList {
  messages: Message[];
  next?: string;
}

export interface Outbox {
  due: number | null;
  name: string;
  oldestDueMs: number;
  parked: number | null;
  pending: number | null;
  reported: string | null;
}

export interface OutboxList {
  more?: boolean;
  outboxes: Outbox[];
}

export interface Outcome {
  attempts?: number;
  attributes?: { [name: string]: Attribute };
  body?: string;
  bodyCut?: boolean;
  deadLetterSource?: string;
  deduplicationId?: string;
  ended: string | null;
  fence: number;
  firstReceive?: string;
  firstSent: string | null;
  generation: number;
  groupId?: string;
  key?: string;
  kind?: string;
  lastReceive?: string;
  lineageId: string;
  messageId: string;
  outcome: "deleted" | "expired" | "dead_lettered" | "moved" | "parked" | "replaced" | "removed";
  reason?: string;
  receiveCount: number;
  redrives?: number;
  sent: string | null;
  sequenceNumber?: string;
  size: number;
  story?: Attempt[];
  to?: string;
}

export interface OutcomeList {
  kept: KeptList;
  next?: string;
  outcomes: Outcome[];
}

export interface PlannedDecision {
  action: "redrive" | "park" | "hold";
  delayMs: number;
  key: string;
  kind: string;
  messageId: string;
  reason: string;
  redrives: number;
  until?: string;
  why: string;
}

export interface Problem {
  claim?: ClaimView;
  code: string;
  detail: string;
  instance: string;
  message: string;
  retryInMs?: number;
  status: number;
  title: string;
  type: string;
}

export interface Queue {
  alarms?: number;
  deadLetters?: DeadLetters;
  deadLettersOf?: string[];
  deadLettersOfMore?: boolean;
  delayed: number;
  fifo: boolean;
  inFlight: number;
  name: string;
  oldestAgeMs: number;
  paused?: boolean;
  rates?: Rates;
  url: string;
  visible: number;
}

export interface QueueDetail {
  alarms?: number;
  arn: string;
  attributes: { [name: string]: string };
  deadLetters?: DeadLetters;
  deadLettersOf?: string[];
  deadLettersOfMore?: boolean;
  delayed: number;
  extensions?: ExtensionView[];
  fifo: boolean;
  handling: Handling;
  inFlight: number;
  name: string;
  oldestAgeMs: number;
  paused?: boolean;
  rates?: Rates;
  tags: { [name: string]: string };
  url: string;
  visible: number;
}

export interface QueueList {
  next?: string;
  queues: Queue[];
  snapshot?: Snapshot;
}

export interface QueueSeries {
  delayed: (number | null)[];
  deletedPerS: (number | null)[];
  inFlight: (number | null)[];
  oldestAgeMs: (number | null)[];
  receivedPerS: (number | null)[];
  sentPerS: (number | null)[];
  visible: (number | null)[];
}

export interface Rates {
  deletedPerS: number;
  receivedPerS: number;
  sentPerS: number;
}

export interface ReasonList {
  complete: boolean;
  grouped: number;
  kinds: (Kind | null)[];
  next?: string;
}

export interface Receives {
  max: number;
  min: number;
}

export interface Record {
  ageMs: number;
  key: string;
  ttlMs?: number;
  value?: string;
  version: number;
}

export interface RecordList {
  next?: string;
  records: (Record | null)[];
}

export interface Redriver {
  error?: string;
  flags: string[];
  history: BreakerSpan[];
  parking: string;
  paused?: string;
  queue: string;
  records: string;
  schedule: string;
  state?: RedriverState;
  step?: RedriverStep;
  target?: string;
}

export interface RedriverBreaker {
  changed: string | null;
  failures: number;
  halfOpenAt?: string;
  state: "CLOSED" | "OPEN" | "HALF_OPEN";
  successes: number;
}

export interface RedriverKind {
  breaker: RedriverBreaker;
  kind: string;
  last: string | null;
  messages: number;
  reason: string;
}

export interface RedriverList {
  redrivers: Redriver[];
}

export interface RedriverPlan {
  breaker: RedriverBreaker;
  deadLetters: number;
  decisions: PlannedDecision[];
  hiddenUntil: string | null;
  hold: number;
  made: string | null;
  onTheWay: number;
  park: number;
  paused?: string;
  queue: string;
  rate: number;
  redrive: number;
}

export interface RedriverState {
  breaker: RedriverBreaker;
  canaries: number;
  deadLetters: number;
  drainMs: number | null;
  failed: number;
  kinds: RedriverKind[];
  oldestMs: number | null;
  onTheWay: number;
  parked: number;
  rate: number;
  rateDoubles: boolean;
  redriven: number;
  retentionMs: number;
  succeeded: number;
  warnings: string[];
}

export interface RedriverStep {
  ended: string | null;
  error?: string;
  next: string | null;
}

export interface Registration {
  ageMs: number | null;
  attempts: number;
  generation: number;
  key: string;
  leaseOver?: boolean;
  messageId?: string;
  owner: string;
  queue: string;
  reason?: string;
  registered?: string;
  state: "held" | "completed" | "failed" | "exhausted" | "released" | "parked" | "unreadable";
}

export interface ReplaySkips {
  later: number;
  live: number;
  refused: number;
}

export interface RequestStatus {
  polls: number;
  throttled: number;
  waiting: number;
}

export interface SeriesList {
  from: string;
  periodMs: number;
  periods: number;
  queues: { [name: string]: QueueSeries };
  since: string;
}

export interface ServerStatus {
  alarmsJudgedMs?: number;
  backups?: BackupStatus;
  commits: CommitStatus;
  disk: DiskStatus;
  memory: MemoryStatus;
  now: string;
  region: string;
  requests: RequestStatus;
  sendsRefused: boolean;
  silenceMs: number;
  started: string;
  turns: TurnStatus;
  version: string;
}

export interface Session {
  allowed: string[];
  api: string;
  caller: Caller;
  ends?: string;
  features: string[];
  now: string;
  open: boolean;
  proof?: string;
  readOnly: boolean;
  server: string;
  version: string;
}

export interface Setting {
  name: string;
  origin: string;
  value: string;
}

export interface SettingList {
  settings: Setting[];
}

export interface ShownAlarm {
  acknowledged?: boolean;
  acknowledgement?: Ack;
  actions: string[];
  commands?: string[];
  description?: string;
  name: string;
  page?: string;
  queue?: string;
  reason: string;
  shipped: boolean;
  silencedUntil?: string;
  since: string;
  state: string;
}

export interface ShownEdit {
  body: boolean;
  removed?: string[];
  set?: string[];
}

export interface Silence {
  match: string;
  reason?: string;
  until: string;
}

export interface Snapshot {
  ageMs: number;
  at: string;
  complete: boolean;
  from: number;
  id: number;
  matched: number;
  total: number;
  totals: Totals;
}

export interface Status {
  group: string;
  leader?: string;
  members: Member[];
  node: string;
  term: number;
  waiting?: Waiting[];
}

export interface StoreList {
  stores: ClaimStore[];
}

export interface Task {
  by?: string;
  confirm?: number;
  delayMs?: number;
  do: "move" | "delete" | "park" | "replay";
  done: number;
  edit?: ShownEdit;
  ended?: string;
  expected?: number;
  filter?: Filter;
  id: string;
  limit?: number;
  missing?: boolean;
  note?: string;
  order?: "newest";
  queue: string;
  rate?: number;
  reason?: string;
  skipped: number;
  sqs?: boolean;
  started: string;
  state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLING" | "CANCELLED" | "FAILED";
  to?: string;
}

export interface TaskCount {
  bytes: number;
  complete: boolean;
  count: number;
  looked: number;
  next?: string;
  outcomes?: Outcome[];
  samples: Message[];
  skipped: number;
  skips?: ReplaySkips;
}

export interface TaskList {
  next?: string;
  tasks: Task[];
}

export interface Tick {
  at: string;
  n: number;
  queues: { [name: string]: LiveQueue };
  silenceMs: number;
  skipped?: number;
  totals: Counted;
}

export interface Took {
  fromMs?: number;
  ms?: number;
  toMs?: number;
}

export interface Totals {
  alarms: number;
  delayed: number;
  deletedPerS: number;
  inFlight: number;
  oldestAgeMs: number;
  receivedPerS: number;
  sentPerS: number;
  visible: number;
}

export interface Trace {
  claims: Claim[];
  complete: boolean;
  events: Event[];
  histories: number;
  keys: string[];
  lineages: string[];
  messages: Message[];
  next?: string;
  now: string;
  registrations: Registration[];
  unknown: Unknown[];
}

export interface TurnStatus {
  count: number;
  p50?: number;
  p99?: number;
  since: string;
}

export interface Unknown {
  part: "messages" | "history" | "claims" | "registrations";
  queue?: string;
  text: string;
  why: "off" | "gone" | "denied" | "bound" | "unindexed";
}

export interface Waiting {
  address: string;
  id: string;
  trouble?: string;
  version: string;
}
