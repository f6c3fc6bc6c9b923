import { expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { StoreUnavailable } from '../core/store-failure.ts';
import { storageError } from './local-failure.ts';

test('a refusal of the caller stays what it is', () => {
  const tooSlow = new ApiError('INVALID_REQUEST', 'the body came too slowly');
  expect(storageError(tooSlow, 'receiving an upload')).toBe(tooSlow);
});

test('an error of the disk is a passing failure', () => {
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  const failure = storageError(full, 'receiving an upload');
  expect(failure).toBeInstanceOf(StoreUnavailable);
  expect((failure as Error).message).toBe(
    'receiving an upload failed (ENOSPC): the disk is full: free some space',
  );
});
