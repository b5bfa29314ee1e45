// One call by the client of the official JavaScript SDK.
//
//   TOKEN=... node call.js URL BINDING METHOD REQUEST [EXTENSION ...]
//
// METHOD is one of the SDK's client, REQUEST its request object as ProtoJSON. Prints a line of ProtoJSON for a
// result and for each event of a stream; for an error its class and the reason that it gives. With the method
// `verifyAgentCard` the public card is printed once the SDK has verified it with the key that its signature names.

import * as a2a from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions, ServiceParameters, withA2AExtensions } from "@a2a-js/sdk/client";

const { Message, StreamResponse, Task } = a2a;

const METHODS = {
  cancelTask: [a2a.CancelTaskRequest, Task],
  createTaskPushNotificationConfig: [a2a.TaskPushNotificationConfig, a2a.TaskPushNotificationConfig],
  deleteTaskPushNotificationConfig: [a2a.DeleteTaskPushNotificationConfigRequest, { toJSON: () => ({}) }],
  getTask: [a2a.GetTaskRequest, Task],
  getTaskPushNotificationConfig: [a2a.GetTaskPushNotificationConfigRequest, a2a.TaskPushNotificationConfig],
  listTaskPushNotificationConfig: [
    a2a.ListTaskPushNotificationConfigsRequest,
    a2a.ListTaskPushNotificationConfigsResponse,
  ],
  listTasks: [a2a.ListTasksRequest, a2a.ListTasksResponse],
  resubscribeTask: [a2a.SubscribeToTaskRequest, StreamResponse],
  sendMessage: [a2a.SendMessageRequest, { toJSON: (sent) => (sent.status ? Task : Message).toJSON(sent) }],
  sendMessageStream: [a2a.SendMessageRequest, StreamResponse],
};

async function publishedKey(kid, jku) {
  const { keys } = await (await fetch(jku)).json();
  return keys.find((key) => key.kid === kid);
}

// Not by the client: of a card that is parsed the verifier forgets the security schemes (a2aproject/a2a-js#663).
async function verifiedCard(url) {
  const card = await (await fetch(new URL(a2a.AGENT_CARD_PATH, url))).json();
  await a2a.verifyAgentCardSignature(publishedKey)(card);
  return card;
}

async function* results(url, binding, method, request, options) {
  if (method === "verifyAgentCard") {
    yield await verifiedCard(url);
    return;
  }
  const preferred = { preferredTransports: [binding] };
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, preferred));
  const client = await factory.createFromUrl(url);
  if (method === "getAgentCard") {
    yield a2a.AgentCard.toJSON(await client.getAgentCard(options));
    return;
  }
  const [requests, responses] = METHODS[method];
  const result = client[method](requests.fromJSON(request), options);
  if (responses === StreamResponse) {
    for await (const event of result) yield StreamResponse.toJSON(event);
  } else {
    yield responses.toJSON(await result);
  }
}

// The SDK writes there which of several signatures it tried in vain.
console.debug = () => {};

function print(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

const [address, binding, method, request, ...extensions] = process.argv.slice(2);
// The card is looked for beside the last segment of the path, not below it.
const url = `${address}/`;
const serviceParameters = ServiceParameters.create(withA2AExtensions(...extensions));
if (process.env.TOKEN) serviceParameters.Authorization = `Bearer ${process.env.TOKEN}`;
try {
  for await (const result of results(url, binding, method, JSON.parse(request), { serviceParameters })) print(result);
} catch (error) {
  print({ error: error.name, reason: error.reason, message: error.message });
}
