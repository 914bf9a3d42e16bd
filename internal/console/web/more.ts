// The screens that are loaded when they are wanted.

export { Alarms } from "./screens/alarms";
export { Groups } from "./screens/groups";
export { Health } from "./screens/health";
export { History } from "./screens/history";
export { Log } from "./screens/log";
export { Tasks } from "./screens/tasks";
export { TracePage } from "./screens/trace";
