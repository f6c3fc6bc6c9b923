/** JSON Schemas of the answers of operations. */
import { type JsonSchema, SCHEMAS } from '@holdfast/protocol';

/** An object with exactly these fields; those in `optional` may be absent. */
export function record(
  fields: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  return {
    type: 'object',
    required: Object.keys(fields).filter((name) => !optional.includes(name)),
    properties: fields,
    additionalProperties: false,
  };
}

export function listOf(items: JsonSchema, description?: string): JsonSchema {
  return { type: 'array', items, ...(description === undefined ? {} : { description }) };
}

export const COUNT: JsonSchema = { type: 'integer', minimum: 0 };
export const TEXT: JsonSchema = { type: 'string' };
export const TIMESTAMP: JsonSchema = {
  type: 'integer',
  minimum: 0,
  description: 'Unix time in milliseconds.',
};

export const orNull = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: 'null' }] });

/** As answered by getUsage of the Space API. */
export const USAGE: JsonSchema = SCHEMAS.SpaceUsage;
/** As answered by runGc of the Space API. */
export const GC_RESULT: JsonSchema = SCHEMAS.GcResult;
export const QUOTAS: JsonSchema = record({
  maxBytes: orNull(COUNT),
  maxNodes: orNull(COUNT),
  maxCommits: orNull(COUNT),
});
