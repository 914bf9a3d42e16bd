// The screens of what is inside queues, which are loaded when they are wanted.

export { Dead, DeadQueues } from "./screens/dead";
export { Groups } from "./screens/groups";
export { History } from "./screens/history";
export { MessagePage } from "./screens/message";
export { Messages } from "./screens/messages";
export { TracePage } from "./screens/trace";
