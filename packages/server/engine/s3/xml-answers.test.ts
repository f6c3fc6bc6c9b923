/** Answers of S3: what was written is read, anything else is one kind of error. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  formatDeleteBatch,
  parseBatchOutcome,
  parseErrorCode,
  parseKeyPage,
  XmlInvalid,
} from './xml-answers.ts';

describe('answers', () => {
  test('an error has a code, or none', () => {
    expect(parseErrorCode('<Error><Code>NoSuchKey</Code></Error>')).toBe('NoSuchKey');
    for (const other of [
      '',
      '<html><Code>x</Code></html>',
      '<Error/>',
      '<Error><Code>a b</Code></Error>',
      'busy',
    ]) {
      expect(parseErrorCode(other)).toBeUndefined();
    }
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (source) => void parseErrorCode(source)));
  });

  test('a page of keys goes on, or ends, and says so', () => {
    const page = (truncated: string, more: string) =>
      `<ListBucketResult>${more}<IsTruncated>${truncated}</IsTruncated><Contents><Key>a%2Fb%20c+d</Key></Contents></ListBucketResult>`;
    expect(parseKeyPage(page('false', ''))).toEqual({ keys: ['a/b c d'], next: undefined });
    const token = '<NextContinuationToken>t&amp;u</NextContinuationToken>';
    expect(parseKeyPage(page('true', token))).toEqual({ keys: ['a/b c d'], next: 't&u' });
    for (const bad of [
      page('true', ''),
      page('maybe', ''),
      '<DeleteResult/>',
      page('false', '<Contents/>'),
    ]) {
      expect(() => parseKeyPage(bad)).toThrow(XmlInvalid);
    }
    expect(parseKeyPage(page('false', '').replace('%2F', '%ff')).keys).toEqual(['a%ffb%20c+d']);
  });

  test('a batch names what is gone and what is not', () => {
    const outcome =
      '<DeleteResult xmlns="x"><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>C</Code></Error></DeleteResult>';
    expect(parseBatchOutcome(outcome)).toEqual({ deleted: ['a'], failed: [{ key: 'b', code: 'C' }] });
    expect(() => parseBatchOutcome('<DeleteResult><Deleted/></DeleteResult>')).toThrow(XmlInvalid);
  });

  test('a batch is XML that the runtime reads', () => {
    const keys = ['a/b', 'c'].map((Key) => ({ Key }));
    expect(Bun.XML.parse(formatDeleteBatch(['a/b', 'c']))).toMatchObject({
      Delete: { Quiet: 'false', Object: keys },
    });
  });

  test('any text is read, or refused by the one error', () => {
    const source =
      '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents a="b"><Key>x&amp;y</Key></Contents></ListBucketResult>';
    const property = fc.property(
      fc.nat({ max: source.length }),
      fc.oneof(fc.string({ unit: 'binary', maxLength: 2 }), fc.constantFrom(...PIECES)),
      fc.nat({ max: 3 }),
      (at, put, cut) => void keysOrRefusal(source.slice(0, at) + put + source.slice(at + cut)),
    );
    fc.assert(property, { numRuns: 2000 });
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => void keysOrRefusal(text)));
  });

  test('what S3 does not send is refused', () => {
    const shapes = ['', 'text', '<a>', '<a></b>', '<a/><b/>', 'x<a/>', '<a>&nbsp;</a>', '<a>&#xD800;</a>'];
    const page = '<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>';
    expect(keysOrRefusal(page)).toEqual([]);
    const bad = [
      ...shapes,
      `<!DOCTYPE a [<!ENTITY b "x">]>${page}`,
      `<!doctype a>${page}`,
      page.repeat(2),
      page.replace('false', '<b/>'),
      page.replace('</IsTruncated>', '</IsTruncated><IsTruncated>false</IsTruncated>'),
      page.replace('</IsTruncated>', '</IsTruncated><Contents>x</Contents>'),
      page.replace('</IsTruncated>', '</IsTruncated><Contents><Key>a</Key><Key>b</Key></Contents>'),
      '<a>'.repeat(1_000_000),
      '<a>'.repeat(500_000) + '</a>'.repeat(500_000),
    ];
    for (const text of bad) expect(keysOrRefusal(text)).toBe('refused');
  });
});

const PIECES = [
  '<',
  '>',
  '</',
  '/>',
  '<a',
  '</Key>',
  '&',
  '&lt;',
  '&#0;',
  '"',
  '=',
  '<!',
  '<?',
  ']]>',
  '<!--',
  '<![CDATA[',
];

/** Any text gives keys or the one kind of error. */
function keysOrRefusal(text: string): readonly string[] | 'refused' {
  try {
    return parseKeyPage(text).keys;
  } catch (error) {
    expect(error).toBeInstanceOf(XmlInvalid);
    return 'refused';
  }
}
