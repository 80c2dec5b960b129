// The API's own description, /openapi.json, in a readable form.

import { get } from "./api.js";
import { by, make } from "./dom.js";

function operation(method, path, about) {
  const schema = about.requestBody?.content?.["application/json"]?.schema;
  const fields = Object.entries(schema?.properties ?? {}).flatMap(([name, field]) => {
    const kind = field.type ?? field.oneOf?.map((each) => each.type).join(" or ");
    const needed = schema.required?.includes(name) ? "needed" : field.default !== undefined ? `default ${JSON.stringify(field.default)}` : "";
    const words = [kind, field.enum?.join(" | "), needed, field.description].filter(Boolean).join(", ");
    return [make("dt", {}, name), make("dd", {}, words)];
  });
  const examples = Object.entries(schema?.properties ?? {}).flatMap(([name, { example }]) => (example === undefined ? [] : [[name, example]]));
  const body = examples.length ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(Object.fromEntries(examples))}'` : "";
  const command = make("pre", {}, `curl -s ${location.origin}${path}${body}`);
  return make("section", { class: "operation" }, make("code", {}, `${method.toUpperCase()} ${path}`), ` ${about.summary ?? ""}`, ...(fields.length ? [make("dl", {}, ...fields)] : []), command);
}

const described = await get("/openapi.json");
const all = Object.entries(described.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, about]) => operation(method, path, about)));
by("operations").replaceChildren(...all);
