// What a page has in place of the modules of Node that ElevenLabs' SDK loads for its parts that are not for browsers.
export class EventEmitter {} // base class of two of those parts
export default {};
