// The other screens that are loaded when they are wanted.

export { AccessKeys } from "./screens/access";
export { Alarms } from "./screens/alarms";
export { Claims } from "./screens/claims";
export { FirstSteps } from "./screens/first";
export { Health } from "./screens/health";
export { Log } from "./screens/log";
export { Outboxes } from "./screens/outbox";
export { Redrivers } from "./screens/redrivers";
export { Tasks } from "./screens/tasks";
