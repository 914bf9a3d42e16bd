// The screens that are loaded when they are wanted.

export { AccessKeys } from "./screens/access";
export { Alarms } from "./screens/alarms";
export { Claims } from "./screens/claims";
export { Dead, DeadQueues } from "./screens/dead";
export { FirstSteps } from "./screens/first";
export { Groups } from "./screens/groups";
export { Health } from "./screens/health";
export { History } from "./screens/history";
export { Log } from "./screens/log";
export { Outboxes } from "./screens/outbox";
export { Redrivers } from "./screens/redrivers";
export { Tasks } from "./screens/tasks";
export { TracePage } from "./screens/trace";
