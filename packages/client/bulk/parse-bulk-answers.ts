/** Untrusted JSON of Bulk's answers → typed results, as strict as those of single nodes. */
import {
  type BulkLeaseResponse,
  type BulkLeaseResult,
  type Hash,
  isPathId,
  PACK_RECORDS_MAX,
  type PackFault,
  type PackInstruction,
  type PackLeaseResponse,
  type PackLeaseResult,
} from '@holdfast/protocol';
import {
  type Fields,
  fieldOf,
  malformed,
  parseFields,
  parseHash,
  parseInteger,
  parseList,
  parseText,
} from '../answer-fields.ts';
import { MESSAGE_CHARACTERS_MAX } from '../limits.ts';
import { parseInstruction, parseReady, parseRejection, parseWaiting } from '../parse-answers.ts';

/** `hashes` are those that were asked for: exactly they must be answered, in their order. */
export function parseBulkLeaseResponse(value: unknown, hashes: readonly Hash[]): BulkLeaseResponse {
  const fields = parseFields(value, 'the whole');
  const list = parseList(fields, 'results');
  if (list.length !== hashes.length) throw malformed('results', `a list of ${hashes.length} results`);
  const results = list.map((item, index) => {
    const result = parseFields(item, 'results');
    const hash = parseHash(result, 'hash');
    if (hash !== hashes[index]) throw malformed('hash', 'the one that was asked for');
    return parseLeaseResult(result, hash);
  });
  if (fieldOf(fields, 'pack') === undefined) return { results };
  return { results, pack: parsePack(parseFields(fieldOf(fields, 'pack'), 'pack')) };
}

export function parsePackLeaseResponse(value: unknown): PackLeaseResponse {
  const fields = parseFields(value, 'the whole');
  const list = parseList(fields, 'results');
  if (list.length > PACK_RECORDS_MAX)
    throw malformed('results', `a list of at most ${PACK_RECORDS_MAX} results`);
  const results = list.map((item) => parsePackLeaseResult(parseFields(item, 'results')));
  if (fieldOf(fields, 'broken') === undefined) return { results };
  return { results, broken: parseFault(parseFields(fieldOf(fields, 'broken'), 'broken')) };
}

function parseLeaseResult(fields: Fields, hash: Hash): BulkLeaseResult {
  const state = parseText(fields, 'state');
  switch (state) {
    case 'ready':
      return parseReady(fields, hash);
    case 'validated_awaiting_children':
      return parseWaiting(fields, hash);
    case 'absent':
      return { state, hash };
    default:
      throw malformed('state', 'a state that Bulk has');
  }
}

function parsePackLeaseResult(fields: Fields): PackLeaseResult {
  const hash = parseHash(fields, 'hash');
  if (fieldOf(fields, 'state') !== 'rejected') return parseLeaseResult(fields, hash);
  return { state: 'rejected', hash, rejection: parseRejection(fields) };
}

function parsePack(fields: Fields): PackInstruction {
  const id = parseText(fields, 'id');
  if (!isPathId(id)) throw malformed('id', 'the id of a pack');
  return {
    ...parseInstruction(fields),
    id,
    bytesMax: parseInteger(fields, 'bytesMax'),
    recordsMax: parseInteger(fields, 'recordsMax'),
  };
}

function parseFault(fields: Fields): PackFault {
  return {
    byte: parseInteger(fields, 'byte'),
    message: parseText(fields, 'message').slice(0, MESSAGE_CHARACTERS_MAX),
  };
}
