/** The arguments of tools: the part of JSON Schema that they are described by, and its check. */

/** A failure whose message is for the agent, word for word. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
}

export type Schema = {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'boolean';
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
};

/** An object of these fields and no others. */
export function fields<P extends Readonly<Record<string, Schema>>>(
  properties: P,
  required: readonly (keyof P & string)[],
) {
  return { type: 'object', properties, required, additionalProperties: false } as const satisfies Schema;
}

/** Throws ToolError. */
export function checkArguments(schema: Schema, value: unknown, place = 'the arguments'): void {
  const fail = (reason: string): ToolError => new ToolError(`${place} ${reason}`);
  const found = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const isType = schema.type === 'integer' ? Number.isSafeInteger(value) : found === schema.type;
  if (!isType) throw fail(`must be ${schema.type}; ${found === 'number' ? String(value) : found} was given`);
  const isSized = typeof value === 'string' || Array.isArray(value);
  const size = typeof value === 'number' ? value : isSized ? value.length : 0;
  const [least, most] = [
    schema.minimum ?? schema.minItems ?? schema.minLength ?? Number.MIN_SAFE_INTEGER,
    schema.maximum ?? schema.maxItems ?? schema.maxLength ?? Number.MAX_SAFE_INTEGER,
  ];
  const what = { integer: '', array: ' items', string: ' characters', object: '', boolean: '' }[schema.type];
  if (size < least) throw fail(`must be at least ${least}${what}; ${size} was given`);
  if (size > most) throw fail(`must be at most ${most}${what}; ${size} was given`);
  if (schema.items !== undefined) {
    for (const [index, item] of (value as unknown[]).entries())
      checkArguments(schema.items, item, nameOf(place, `[${index}]`));
  }
  if (schema.properties !== undefined)
    checkFields(schema.properties, schema.required ?? [], value as object, place);
}

function checkFields(
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[],
  value: object,
  place: string,
): void {
  for (const name of required) {
    if (!Object.hasOwn(value, name)) throw new ToolError(`${nameOf(place, name)} is missing`);
  }
  for (const [name, field] of Object.entries(value)) {
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (schema === undefined) {
      const known = Object.keys(properties).join(', ');
      throw new ToolError(`${place} have a field ${JSON.stringify(name.slice(0, 64))}; known are ${known}`);
    }
    checkArguments(schema, field, nameOf(place, name));
  }
}

function nameOf(place: string, name: string): string {
  return place === 'the arguments' ? name : `${place}${name.startsWith('[') ? '' : '.'}${name}`;
}
