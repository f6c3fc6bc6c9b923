import { testContentIntake } from '../test/content-intake-suite.ts';
import { DiskContentIntake } from './open-disk-content-store.ts';
import { openContentStore } from './test/content-store-fixture.ts';

testContentIntake('embedded', async () => {
  const { store, layout, destroy } = await openContentStore();
  if (store.upload.kind !== 'server') throw new Error('the embedded store receives uploads itself');
  const { receiver } = store.upload;
  return {
    store,
    intake: new DiskContentIntake({ receiver, layout, assertSound: () => undefined }),
    destroy,
  };
});
