/** JSON Schemas of what operations answer. */
import { type JsonSchema, SCHEMAS } from '@holdfast/protocol';

/** An object with exactly these fields; those in `optional` may be left out. */
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

/** As getUsage of the Space API answers it. */
export const USAGE: JsonSchema = SCHEMAS.SpaceUsage;
/** As runGc of the Space API answers it. */
export const GC_RESULT: JsonSchema = SCHEMAS.GcResult;
/** The quota of an App or a Space; null: no limit. */
export const QUOTAS: JsonSchema = record({
  maxBytes: orNull(COUNT),
  maxNodes: orNull(COUNT),
  maxCommits: orNull(COUNT),
});
