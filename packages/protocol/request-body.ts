/** Shared by the parsers of request bodies: bounded strict JSON, known fields only, refusals that name field and rule. */
import { ApiError } from './errors.ts';
import { INTEGER_MAX, JSON_BODY_BYTES_MAX, JSON_DEPTH_MAX, JSON_VALUES_MAX } from './limits.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseStrictJson,
  quoted,
  StrictJsonError,
} from './strict-json.ts';

/** The body as an object that has no other fields than these. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseBody(bytes: Uint8Array, fields: readonly string[]): JsonObject {
  if (bytes.length > JSON_BODY_BYTES_MAX) {
    throw new ApiError(
      'PAYLOAD_TOO_LARGE',
      `the body is over ${JSON_BODY_BYTES_MAX} bytes; send a smaller one`,
    );
  }
  const body = parseJson(bytes);
  if (!isJsonObject(body)) throw invalid(`the body must be a JSON object with ${fields.join(', ')}`);
  for (const name of body.keys()) {
    if (!fields.includes(name)) {
      throw invalid(`field ${quoted(name)} is not known; the body has ${fields.join(', ')} only`);
    }
  }
  return body;
}

function parseJson(bytes: Uint8Array): JsonValue {
  try {
    return parseStrictJson(bytes, { depthMax: JSON_DEPTH_MAX, valuesMax: JSON_VALUES_MAX });
  } catch (cause) {
    if (!(cause instanceof StrictJsonError)) throw cause;
    throw new ApiError('INVALID_REQUEST', `the body is not valid JSON: ${cause.message}`, { cause });
  }
}

export function readPositiveInteger(value: JsonValue | undefined, field: string): number {
  if (value === undefined)
    throw invalid(`${field} is missing; it must be an integer from 1 to ${INTEGER_MAX}`);
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
    throw invalid(`${field} must be an integer from 1 to ${INTEGER_MAX}`);
  }
  return value;
}

export function invalid(message: string): ApiError {
  return new ApiError('INVALID_REQUEST', message);
}
