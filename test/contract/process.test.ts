import { processGround } from "../support/process-ground.js";
import { driverSuite } from "./driver-suite.js";

driverSuite("process", processGround);
