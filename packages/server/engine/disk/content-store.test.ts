import { testContentStore } from '../test/content-store-suite.ts';
import { openContentStore } from './test/content-store-fixture.ts';

testContentStore('embedded', { upload: 'server', open: () => openContentStore() });
