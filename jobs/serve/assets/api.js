// Asking the service.

export class Refused extends Error {}

async function refuse(answer) {
  let sentence = `The service answered with ${answer.status}.`;
  try {
    sentence = (await answer.json()).error ?? sentence;
  } catch {
    // not JSON: the status has to do
  }
  throw new Refused(sentence);
}

function headers(key) {
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

export async function get(path) {
  const answer = await fetch(path);
  return answer.ok ? answer.json() : refuse(answer);
}

export async function post(path, body, { key, signal } = {}) {
  const answer = await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body), signal });
  return answer.ok ? answer.json() : refuse(answer);
}

/** Yields [event, data] as the service sends them. */
export async function* stream(path, body, { key, signal }) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { ...headers(key), Accept: "text/event-stream" },
    body: JSON.stringify(body),
    signal,
  });
  if (!answer.ok) await refuse(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const text of events) {
      const name = /^event: (.*)$/m.exec(text)?.[1];
      const data = /^data: (.*)$/m.exec(text)?.[1];
      if (name && data) yield [name, JSON.parse(data)];
    }
  }
}
